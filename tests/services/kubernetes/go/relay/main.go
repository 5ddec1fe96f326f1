// Relay takes connections from a listening socket, its descriptor 3, and hands each on to the address in its first
// argument. The socket belongs to the network namespace in which it was made, and the calls to that of this process,
// so that a cluster in a namespace of its own can be reached from the machine.
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go handOn(client.(*net.TCPConn), os.Args[1])
	}
}

func handOn(client *net.TCPConn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		client.SetLinger(0) // the client sees a reset, the next best thing to a refusal
		return
	}
	defer server.Close()
	ended := make(chan bool)
	go func() {
		handOver(server.(*net.TCPConn), client)
		ended <- true
	}()
	handOver(client, server.(*net.TCPConn))
	<-ended
}

func handOver(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		to.SetLinger(0) // a connection that broke is no connection that ended
		to.Close()
		return
	}
	to.CloseWrite()
}
