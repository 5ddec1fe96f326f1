NONE: str
