/// What stands behind the `MailHeader` of a message that goes to one session, is retained, or must be taken once.
struct MailDetail: BitwiseCopyable {
    /// For `.shared` and `.retained`: the session, the terms of its subscription, and the group. For `.retain` and `.settled`: the node of
    /// the change that the stamp numbers, 0 for this one.
    var sessionKey: UInt64 = 0
    var sessionIndex: UInt32 = 0
    var terms: UInt32 = 0
    var group: UInt32 = 0
    /// For `.retained`: how many more of its scan are to be granted once this one is taken; 0 for most.
    var request: UInt32 = 0
    /// For `.shared`, of a message that was dealt out of the cluster's log: the shard that has dealt it and one, and where it stands. 0 for others.
    var dealer: UInt32 = 0
    var partition: UInt32 = 0
    var place: UInt64 = 0
    /// For `.retained`: the stamp of the query. For `.shared`: stands for the group's name and filter. For `.retain` and `.settled`: the
    /// change's number among its node's, 0 for one that the cluster does not hear of.
    var stamp: UInt64 = 0
    /// For `.retain`: the shards that have the message already, a bit each. For `.retained`: the scan it came from.
    var shards: UInt64 = 0
    /// For `.publish`, `.shared` and `.retain`: names a QoS 2 message that must be taken once; 0 for any other.
    var receipt: UInt64 = 0
}
