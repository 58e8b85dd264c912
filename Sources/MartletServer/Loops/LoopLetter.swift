import BrokerCore
import Transports

/// What reaches a shard's loop from other threads.
enum LoopLetter: Sendable {
    /// A batch from another shard.
    case mail(from: Int, MailBatch)
    /// A connection whose client lives here.
    case handOver(HandOver, any ByteChannel)
    /// End gracefully: accept nothing more, say goodbye, drain.
    case stop
}
