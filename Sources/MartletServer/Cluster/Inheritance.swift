import Cluster

/// What was not done on a node that is gone, while somebody deals it: should that one be gone as well, this node may be the next to deal it.
struct Inheritance {
    /// By partition: up to where the node was done.
    let done: [UInt64]
    /// Whether it is this node that deals.
    var isMine = false
    /// Seconds until all of it is dealt, or given up.
    var secondsLeft = Limits.inheritanceSeconds
}
