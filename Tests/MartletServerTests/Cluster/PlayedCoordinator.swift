import Administration
import BrokerCore
import BrokerModel
import Cluster
import Configuration
import MQTTCodec
import NetworkTestKit
import Testing

@testable import ClusterGateway
@testable import MartletServer
@testable import NATSClient
@testable import ServerLoops

/// The rest of a node's gateway, without a log and without other nodes that have to be told anything.
final class PlayedGateway: GatewayContext, ReadLog {
    private let shell: SimulatedShell
    /// When the simulation began, in milliseconds since 1970.
    var startedAt: UInt64 = 1_700_000_000_000
    var lastTicket: UInt64 = 0
    /// The last ticket that all nodes know.
    var knownTicket: UInt64 = .max
    /// What the log says of how far a session has come since it was saved.
    var furtherPlaces: [UInt8] = []
    /// Whether anything of a client is on its way to the servers.
    var isPublishing = false
    /// The streams without room, and why.
    private(set) var refused: [String] = []
    /// What shards were told.
    private var posted: [FromCluster] = []
    /// Sessions of which the shard is to say whether it has them.
    private var asked: [[UInt8]] = []

    init(_ shell: SimulatedShell) { self.shell = shell }

    func takePosted() -> [FromCluster] {
        defer { posted = [] }
        return posted
    }

    func takeAsked() -> [[UInt8]] {
        defer { asked = [] }
        return asked
    }

    var wallClock: UInt64 { startedAt + shell.network.now }

    func post(_ message: FromGateway, to shard: Int) {
        guard case .shard(let message) = message else { return }
        posted.append(message)
        if case .sessionAssumed(let session, _, _) = message { asked.append(session) }
    }

    func shownName(of node: NodeID) -> String { "\(node)" }

    func refused(_ stream: String, _ error: JetStreamError) { refused.append("\(stream) \(error.errorCode)") }

    func report(_ reason: String) {}

    func isInForce(_ ticket: UInt64) -> Bool { ticket <= knownTicket }

    func ahead(of will: SavedWill) -> WillAhead { WillAhead() }

    func isOnItsWay(_ ahead: WillAhead) -> Bool { isPublishing }

    func writeIsOver() {}

    func logIsCut(_ partition: Int, at last: UInt64) {}

    func logSays(successorOf gone: NodeID, _ successor: NodeID) {}

    func positions(of session: [UInt8], _ saved: SessionRecord.Saved) -> [UInt8] { saved.places + furtherPlaces }

    func order(of partition: Int, from sequence: UInt64) -> LogOrder { LogOrder() }

    func recordGone(_ partition: Int, through sequence: UInt64) -> UInt64 { 0 }
}

/// A node's sessions, with the shards and the servers played by the test, and a session that it is about.
final class PlayedCoordinator {
    let shell: SimulatedShell
    let servers: PlayedServers
    let gateway: PlayedGateway
    let coordinator: SessionCoordinator
    /// What it says.
    var shardHas: (isHere: Bool, will: WillName?) = (false, nil)
    let me: SessionRecord.Owner

    init(
        store: UInt32 = 1, detached: DetachedConduct = .refuse, payloadBytesMax: Int = 1 << 20,
        bucketIsMadeMeanwhile: Bool = false
    ) throws {
        me = SessionRecord.Owner(node: NodeID(store: store, incarnation: 5), leaseSequence: 10)
        var configuration = BrokerConfiguration.default()
        configuration.cluster.servers = ["nats://a"]
        configuration.cluster.name = "c"
        configuration.cluster.detached = detached
        configuration.persistence.isEnabled = true
        configuration.general.nodeName = "n"
        let plan = try #require(try ClusterPlan(configuration))
        shell = try SimulatedShell(loops: 1)
        servers = PlayedServers(plan, on: shell.loops[0], payloadBytesMax: payloadBytesMax)
        gateway = PlayedGateway(shell)
        coordinator = SessionCoordinator(
            plan, NodeIncarnations(me.node), on: shell.loops[0], servers.connection, log: gateway, context: gateway)
        servers.bucketIsMadeMeanwhile = bucketIsMadeMeanwhile
        servers.connect()
        coordinator.attached()
        servers.answer()
        lease()
    }

    func lease(_ others: NodeID...) {
        coordinator.live([me.node] + others, through: 100, me: me)
        run()
    }

    /// Answers, and lets ticks pass.
    func run(ticks: Int = 3) {
        for _ in 0..<ticks {
            servers.answer()
            for session in gateway.takeAsked() {
                send(.assumed(identifier: session, isHere: shardHas.isHere, will: shardHas.will))
            }
            shell.network.now += 1000
            shell.turn(0)
            coordinator.advance(now: coordinator.now)
            servers.answer()
        }
    }

    func take(ticks: Int = 3) -> [FromCluster] {
        run(ticks: ticks)
        return gateway.takePosted()
    }

    func send(_ message: ToCluster) { coordinator.received(message) }

    var subject: String {
        "$KV.martlet_c_sessions." + String(decoding: SubjectSpace.digest(Self.session), as: UTF8.self)
    }

    /// What stands in the bucket; nil for nothing, or the mark of an end.
    var record: SessionRecord? {
        servers.entries[subject].flatMap { $0.isDeletion ? nil : SessionRecord($0.payload) }
    }

    /// The session is this node's.
    func claim(expiry: UInt32 = 60) throws -> UInt64 {
        send(
            .claim(
                SessionClaim(identifier: Self.session, expiryInterval: expiry, cleanStart: false, hasSession: false)))
        for case .sessionClaimed(_, .here, let epoch) in take() { return epoch }
        Issue.record("it is not claimed")
        return 0
    }

    /// A client comes, whose session the shard does not have, and the others that are asked stop.
    func come(
        expiry: UInt32 = 60, cleanStart: Bool = false, hasSession: Bool = false, epoch: UInt64 = 0,
        _ stops: (node: NodeID, keptBy: UInt64?)...
    ) -> [FromCluster] {
        let found = record?.epoch ?? 0
        send(
            .claim(
                SessionClaim(
                    identifier: Self.session, expiryInterval: expiry, cleanStart: cleanStart, hasSession: hasSession,
                    epoch: epoch)))
        run(ticks: 1)
        for stop in stops {
            let offer = stop.keptBy.map { SessionAnswer.Offer(number: 4, epoch: $0) }
            coordinator.stopped(Self.session, offer: offer, hasSettledWills: true, epoch: found + 1, by: stop.node)
        }
        return take()
    }

    /// A message comes from another node.
    func take(_ nodeMessage: SessionMessage) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        coordinator.space.sessions(to: me.node).withUnsafeBytes { subject in
            Array("_INBOX.x".utf8).withUnsafeBytes { reply in
                nodeMessage.encoded.withUnsafeBytes { payload in
                    let message = MessageView(
                        subscription: 1, subject: subject, reply: reply, headers: nothing, payload: payload)
                    #expect(coordinator.received(message))
                }
            }
        }
    }

    func nodeMessages(to other: NodeID) -> [SessionMessage] {
        let subject = coordinator.space.sessions(to: other)
        return servers.published.filter { Array($0.subject.utf8) == subject }
            .compactMap { $0.payload.withUnsafeBytes { SessionMessage(reading: $0) } }
    }

    var wills: [String] { servers.published.compactMap { $0.subject.contains(".l.") ? $0.identifier : nil } }

    /// A client comes for a session whose node is gone, again and again until that is not waited for any more.
    func claimLeft(_ record: SessionRecord) throws -> UInt64 {
        servers.put(record.encoded, to: subject)
        for _ in 0..<20 {
            send(.claim(SessionClaim(identifier: record.identifier, expiryInterval: 60, cleanStart: false, hasSession: false)))
            if case .sessionClaimed(_, _, let epoch)? = take().first { return epoch }
        }
        Issue.record("it is not claimed")
        return 0
    }

    // MARK: What is given

    static let second = NodeID(store: 2, incarnation: 1)
    static let session = Array("client".utf8)

    static func saved(_ epoch: UInt64, _ number: UInt64, state: [UInt8]? = [1], will: SavedWill? = nil, away: UInt64 = 0)
        -> ToCluster
    {
        var saved = SavedSession(
            identifier: session, epoch: epoch, number: number, expiryInterval: 60, state: state, places: state == nil ? nil : [2])
        (saved.will, saved.awaySince) = (will, away)
        return .saves(saved)
    }

    static func will(_ epoch: UInt64, _ number: UInt64, delay: UInt32 = 0, retain: Bool = false) -> SavedWill {
        let message = [UInt8(ascii: "t"), UInt8(number)].withUnsafeBytes { bytes in
            let (topic, payload) = (UnsafeRawBufferPointer(rebasing: bytes[..<1]), UnsafeRawBufferPointer(rebasing: bytes[1...]))
            var message = LogMessage(
                topic: topic, properties: UnsafeRawBufferPointer(rebasing: bytes[..<0]), payload: payload, qos: .atLeastOnce,
                retain: retain)
            message.publisher = 7
            return message.entry
        }
        return SavedWill(name: WillName(epoch: epoch, number: number), delayInterval: delay, message: message)
    }

    static func numbers(_ orders: [FromCluster]) -> [UInt64] {
        orders.compactMap { if case .sessionSaved(_, let number) = $0 { number } else { nil } }
    }

    /// No positions, and no receipts.
    static let savedPlaces: [UInt8] = [0, 0, 0, 0]

    /// The record of a session that a node has just claimed.
    static func claimed(_ epoch: UInt64, by node: NodeID) -> SessionRecord {
        SessionRecord(
            epoch: epoch, owners: [SessionRecord.Owner(node: node, leaseSequence: 3)], identifier: session, expiryInterval: 60)
    }

    /// The record of a session that a node has kept which is gone.
    static func left(_ wills: [SavedWill] = [], expiry: UInt32 = 60, away: UInt64 = 0, state: [UInt8] = []) -> SessionRecord {
        var record = SessionRecord(
            epoch: 1000, owners: [SessionRecord.Owner(node: NodeID(store: 2, incarnation: 1), leaseSequence: 3)],
            identifier: session,
            expiryInterval: expiry)
        (record.wills, record.awaySince) = (wills, away)
        if !state.isEmpty { record.saved = SessionRecord.Saved(epoch: 1000, state: state, places: savedPlaces) }
        return record
    }
}
