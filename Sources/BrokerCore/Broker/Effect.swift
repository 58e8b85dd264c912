public import BrokerModel

/// What a shard wants done that it cannot do itself. Effects are to be carried out in order.
///
/// What is large is indirect, so that the lines of the log, which are the most, are not carried about in its size.
public enum Effect: Sendable {
    /// The connection has ended: close its transport. Its output is drained, or was given up.
    case close(ConnectionID)
    /// The connection's client lives on another shard: move the transport there and call `adopt` on that shard.
    indirect case handOver(ConnectionID, HandOver)
    /// Decide whether the client may connect, and answer with `authenticated`.
    indirect case authenticate(ConnectionID, AuthenticationRequest)
    /// Make a batch of changes durable, and report it.
    case store(JournalBatch)
    /// Read rows from the store, and report them.
    indirect case read(StoreRequest)
    /// Tell a local client's party.
    case local(ConnectionID, LocalEvent)
    /// Give whoever asked a page of the answer.
    indirect case reply(ShardReply)
    /// Tell whoever gave an order what has become of it.
    indirect case outcome(ShardOrderOutcome)
    /// Do what a client asks the broker for.
    indirect case control(ControlMessage)
    /// Tell who wants to know who is there.
    indirect case presence(PresenceEvent)
    /// Somebody has done what may end in a ban.
    indirect case offence(Offence)
    /// Write down what was recorded for traces, and say so with `tracesTaken`.
    indirect case traced(TraceBatch)
    /// Tell the cluster.
    indirect case cluster(ClusterNote)
    /// Write a line to the log; the fields tell programs what it is about.
    case log(LogTopics, String, LogFields?)
}
