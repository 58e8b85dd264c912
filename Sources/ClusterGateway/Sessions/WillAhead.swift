import Cluster
import ServerLoops

/// What was on its way to the servers when a will was to be sent: what its client has published before, and changes of the retained message of
/// its topic. The will waits for that, so that it does not come first.
struct WillAhead {
    /// Where the client's messages stand that were given to the log.
    var log: (partition: Int, place: Cluster.LogWriter.Place)?
    /// The topic, and the numbers of its changes.
    var retained: (topic: [UInt8], changes: [UInt64])?
}
