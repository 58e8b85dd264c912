/// What a shard holds for its clients and counts as it comes and goes, in bytes. What its structures know of themselves is not in it.
struct MemoryTally {
    /// Packets that have come in part, CONNECT packets that are not answered, and the topics of clients' aliases.
    var inbound = 0
    /// Of these, what connections hold that are not logged in.
    var ofNewcomers = 0
    /// Sessions and their queues, without the messages in them.
    var sessions = 0
    /// What the other shards hold, all of it, as the shell has told last.
    var elsewhere = 0
    /// What the shell remembers for administrators, as it was last told.
    var remembered = 0
}
