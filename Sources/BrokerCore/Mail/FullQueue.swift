/// A session that has a full queue, as its shard tells the others.
struct FullQueue: Sendable {
    let sessionKey: UInt64
    /// What its client may read; nil for everything.
    let access: AccessPolicy?
    /// What it subscribes to for itself, with a QoS that waits.
    let filters: [[UInt8]]
}
