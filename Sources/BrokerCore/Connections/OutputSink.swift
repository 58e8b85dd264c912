public import BrokerModel
public import Bytes

/// Takes a connection's output to its transport. Called once per connection and turn.
public protocol OutputSink: AnyObject {
    /// Sends as much as the transport takes without waiting.
    ///
    /// - Returns: the bytes taken. When they are fewer than given, the shell calls `BrokerShard.writable` once there is room.
    func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int
}
