import BrokerCore
import BrokerModel
import MQTTCodec
import Platform
import ServerLoops
import Synchronization

/// All loops of a broker that runs, as the control thread speaks to them, to which this belongs.
///
///     running ── stop ──► stopping
final class LoopGroup {
    /// By index.
    let all: [ShardLoop]
    /// Where each client and each retained message is.
    let placement: ShardPlacement
    /// Whether the loops are told to end.
    private(set) var isStopping = false
    /// The number of the last heartbeat that they were asked for.
    private var heartbeat: UInt64 = 0

    /// - Parameter all: one at least.
    init(_ all: [ShardLoop]) { (self.all, placement) = (all, all[0].shard.placement) }

    var count: Int { all.count }

    /// By loop.
    var mailboxes: [Mailbox<LoopMessage>] { all.map(\.mailbox) }

    /// Tells all of them.
    func send(_ message: LoopMessage) { for loop in all { loop.mailbox.post(message) } }

    /// Tells one of them.
    func send(_ message: LoopMessage, to loop: Int) { all[loop].mailbox.post(message) }

    /// Tells the first one, which speaks for all where one of them is to.
    func sendToFirst(_ message: LoopMessage) { all[0].mailbox.post(message) }

    /// Tells the cluster's gateway, which is on the first one.
    func sendToGateway(_ message: ToGateway) { sendToFirst(.gateway(message)) }

    /// Which of them a client's session is on.
    func loop(of clientIdentifier: EncodedString) -> Int { placement.shard(of: clientIdentifier) }

    /// Has them end together, gracefully.
    func stop() {
        isStopping = true
        send(.stop(ShutdownBarrier(loops: count)))
    }

    /// Asks all of them whether they still turn.
    ///
    /// - Returns: whether each has answered since it was asked last.
    func askForHeartbeat() -> Bool {
        let haveAnswered = all.allSatisfy { $0.heartbeat.load(ordering: .acquiring) == heartbeat }
        heartbeat += 1
        send(.heartbeat(heartbeat))
        return haveAnswered
    }
}
