# A batch system of some lines: sh spool.sh COMMAND SPOOL [APP [SIGNAL]].

# Run one replica, in its directory; the arguments are its time limit and its program. The program has a session, so
# that one signal reaches all its processes; this shell stays behind and writes down how it ended.
run() {
  setsid --wait sh -c '
    exec >out 2>err
    echo "$$ $PPID $(date +%s.%N)" >started.new && mv started.new started
    [ -e ../go ] && exec timeout -k 9 "$@"
  ' sh "$@"
  code=$?
  read -r group _ <started && kill -s TERM -- "-$group" 2>/dev/null
  echo "$code $(date +%s.%N)" >ended.new && mv ended.new ended
}

prepare() {
  mkdir "$new/$1"
  command -v -- "$2" >/dev/null || { echo "no program $2" >&2; exit 69; }
}

start() {
  cd "$spool/$app/$1" && shift
  setsid sh "$service" run "$spool" "$limit" "$@" </dev/null >/dev/null 2>&1 &
}

# The job comes in as shell: it sets `note` and `limit`, and has a function that calls its argument for each replica.
# The app is there when its directory has its name; before that, every program has been found and none runs.
submit() {
  set -eu
  umask 077
  app=$1 new=$spool/.$1.$$
  eval "$(cat)"
  trap 'rm -rf "$new"' EXIT
  trap 'exit 1' TERM
  mkdir -p "$new"
  : >"$new/go"
  printf "%s\n" "$note" >"$new/note"
  replicas prepare
  mv -T "$new" "$spool/$app" 2>/dev/null || exit 17
  replicas start
}

# Read what is known of a replica. A process that has got the number of one that is gone is not at home here.
look() {
  group= keeper= started= code= ended= alive= stopped=
  { read -r group keeper started <"$1/started"; } 2>/dev/null
  [ "$1" -ef "/proc/${keeper:-none}/cwd" ] && alive=yes
  { read -r code ended <"$1/ended"; } 2>/dev/null
  [ -e "$1/stopped" ] && stopped=yes
}

# One answer for all the apps whose ids come in.
describe() {
  cd "$spool" 2>/dev/null || exit 0
  while read -r app; do
    { read -r note <"$app/note"; } 2>/dev/null || continue
    [ -e "$app/go" ] && mark=go || mark=cancelled
    printf "app %s %s\n%s\n" "$app" "$mark" "$note"
    for dir in "$app"/*/; do
      look "$dir"
      echo "replica $dir ${alive:--} ${stopped:--} ${started:--} ${code:--} ${ended:--}"
    done
  done
}

# The mark comes before the signal: what has not begun by then never will.
end() {
  cd "$spool/$1" 2>/dev/null || exit 0
  for dir in */; do
    look "$dir"
    if [ -z "$code" ] && [ -n "$alive" -o -z "$started" ]; then
      [ -e go ] && mv go cancelled
      : >"$dir/stopped"
      look "$dir"
      [ "$alive" ] && kill -s "$2" -- "-$group" 2>/dev/null
    fi
  done
  exit 0
}

remove() {
  mv -T "$spool/$1" "$spool/.$1.$$" && rm -rf "$spool/.$1.$$"
}

list() {
  ls "$spool" 2>/dev/null
  exit 0
}

service=$0 command=$1 spool=$2
shift 2
"$command" "$@"
