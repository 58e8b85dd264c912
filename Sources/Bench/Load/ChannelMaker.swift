import EpollLoop
import Transports

/// Makes connections to the broker: the seam for what carries them.
protocol ChannelMaker: Sendable {
    /// Begins to connect. The channel becomes writable when it is done; a write then tells whether it failed.
    func makeChannel() throws(SystemError) -> any ByteChannel
}

/// Plain TCP.
struct SocketChannelMaker: ChannelMaker {
    let address: SocketAddress

    func makeChannel() throws(SystemError) -> any ByteChannel {
        try SocketChannel.connecting(to: address)
    }
}
