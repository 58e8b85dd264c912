/// The bounds of the cluster's pure half that no option sets.
enum Limits {
    /// How often a node asks again who has not answered a fence, in milliseconds.
    static let fenceRepeatMilliseconds: UInt64 = 1000

    /// Bytes of a message that tells of share groups; what is beyond them goes with the next one.
    static let groupNewsBytesMax = 64 << 10

    /// Bytes of a record of the log into which entries are packed; a larger entry has a record of its own. With synced
    /// records the servers' rate hardly depends on their size up to here.
    static let recordBytesMax = 32 << 10

    /// How many records of one node are under way to one partition.
    static let logQueues = 4

    /// How long an answer of the servers is waited for until the record is sent again, in milliseconds.
    static let logAnswerMilliseconds: UInt64 = 2000

    /// After how long a record is sent again that the servers could not take, in milliseconds.
    static let logRetryMilliseconds: UInt64 = 250

    /// How many nodes a session's record names that may not know that they keep it no more; a record with more is
    /// refused. Bytes: 24 each.
    static let ownersMax = 64

    // Who is there.

    /// How many nodes are told of; a node beyond them is not seen, and works all the same. Bytes: `summaryBytesMax`
    /// each at most.
    static let membersMax = 1000
}
