/// What a shard wants done that it cannot do itself. Effects are to be carried out in order.
public enum Effect: Sendable {
    /// The connection has ended: close its transport. Its output is drained, or was given up.
    case close(ConnectionID)
    /// The connection's client lives on another shard: move the transport there and call `adopt` on that shard.
    case handOver(ConnectionID, HandOver)
    /// Decide whether the client may connect, and answer with `authenticated`.
    case authenticate(ConnectionID, AuthenticationRequest)
    /// Make a batch of changes durable, and report it.
    case store(JournalBatch)
    /// Read rows from the store, and report them.
    case read(StoreRequest)
    /// Tell a local client's party.
    case local(ConnectionID, LocalEvent)
    /// Give whoever asked a page of the answer.
    case reply(ShardReply)
    /// Tell whoever gave an order what has become of it.
    case outcome(ShardOrderOutcome)
    /// Do what a client asks the broker for.
    case control(ControlMessage)
    /// Tell who wants to know who is there.
    case presence(PresenceEvent)
    /// Somebody has done what may end in a ban.
    case offence(Offence)
    /// Write down what was recorded for traces, and say so with `tracesTaken`.
    case traced(TraceBatch)
    /// Tell the cluster.
    case cluster(ClusterNote)
    /// Write a line to the log; the fields tell programs what it is about.
    case log(LogTopics, String, LogFields?)
}
