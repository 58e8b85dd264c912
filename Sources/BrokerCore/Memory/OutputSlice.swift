public import Bytes

/// A piece of a connection's output.
public typealias OutputSlice = ByteSlice
