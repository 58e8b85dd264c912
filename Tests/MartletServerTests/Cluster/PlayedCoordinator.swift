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

    /// - Parameters:
    ///   - record: of its session; nil for none.
    ///   - store: the node's.
    ///   - others: nodes that hold a lease.
    ///   - detached: as configured.
    ///   - payloadBytesMax: what the servers take.
    ///   - bucketIsMadeMeanwhile: see `PlayedServers`.
    init(
        _ record: SessionRecord? = nil, store: UInt32 = 1, beside others: NodeID..., detached: DetachedConduct = .refuse,
        payloadBytesMax: Int = 1 << 20, bucketIsMadeMeanwhile: Bool = false
    ) throws {
        me = SessionRecord.Owner(node: NodeID(store: store, incarnation: 5), leaseSequence: 10)
        let plan = try ClusterPlan.played(detached: detached)
        shell = try SimulatedShell(loops: 1)
        servers = PlayedServers(plan, on: shell.loops[0], payloadBytesMax: payloadBytesMax)
        gateway = PlayedGateway(shell)
        coordinator = SessionCoordinator(
            plan, NodeIncarnations(me.node), on: shell.loops[0], servers.connection, log: gateway, context: gateway)
        servers.bucketIsMadeMeanwhile = bucketIsMadeMeanwhile
        servers.connect()
        coordinator.attached()
        servers.answer()
        lease(others)
        if let record { put(record) }
    }

    func lease(_ others: NodeID...) { lease(others) }

    private func lease(_ others: [NodeID]) {
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

    let session = Array("client".utf8)

    var subject: String { "$KV.martlet_c_sessions." + String(decoding: SubjectSpace.digest(session), as: UTF8.self) }

    /// Writes the record, as another node does.
    func put(_ record: SessionRecord) { servers.put(record.encoded, to: subject) }

    /// What stands in the bucket; nil for nothing, or the mark of an end.
    var record: SessionRecord? {
        servers.entries[subject].flatMap { $0.isDeletion ? nil : SessionRecord($0.payload) }
    }

    /// Whether it acts for the session.
    var isKept: Bool { coordinator.owner?.keeps(session) == true }

    /// The session's client comes.
    func comes(expiry: UInt32 = 60, cleanStart: Bool = false, hasSession: Bool = false, epoch: UInt64 = 0) {
        let claim = SessionClaim(
            identifier: session, expiryInterval: expiry, cleanStart: cleanStart, hasSession: hasSession, epoch: epoch)
        send(.claim(claim))
    }

    /// The shard gives what the session is.
    func saves(_ epoch: UInt64, _ number: UInt64, state: [UInt8]? = [1], will: SavedWill? = nil, away: UInt64 = 0) {
        var saved = SavedSession(
            identifier: session, epoch: epoch, number: number, expiryInterval: 60, state: state, places: state == nil ? nil : [2])
        (saved.will, saved.awaySince) = (will, away)
        send(.saves(saved))
    }

    /// The numbers of what stands in the record now.
    func takeSaved() -> [UInt64] { take().compactMap { if case .sessionSaved(_, let number) = $0 { number } else { nil } } }

    /// The second node says that it has stopped.
    func secondStops(_ epoch: UInt64, offer: SessionAnswer.Offer? = nil, hasSettledWills: Bool = true) {
        coordinator.stopped(session, offer: offer, hasSettledWills: hasSettledWills, epoch: epoch, by: .second)
    }

    /// The second node asks for the session.
    func secondAsks(cleanStart: Bool, epoch: UInt64) {
        take(SessionMessage(.ask(cleanStart: cleanStart), node: .second, epoch: epoch, identifier: session))
    }

    /// The session is this node's.
    func claim(expiry: UInt32 = 60) throws -> UInt64 {
        comes(expiry: expiry)
        for case .sessionClaimed(_, .here, let epoch) in take() { return epoch }
        Issue.record("it is not claimed")
        return 0
    }

    /// The same, with a will in its record.
    func claimWithWill() throws -> UInt64 {
        let epoch = try claim()
        saves(epoch, 1, will: .named(epoch, 1))
        _ = take()
        return epoch
    }

    /// A client comes, whose session the shard does not have, and the others that are asked stop.
    func come(
        expiry: UInt32 = 60, cleanStart: Bool = false, hasSession: Bool = false, epoch: UInt64 = 0,
        _ stops: (node: NodeID, keptBy: UInt64?)...
    ) -> [FromCluster] {
        let found = record?.epoch ?? 0
        comes(expiry: expiry, cleanStart: cleanStart, hasSession: hasSession, epoch: epoch)
        run(ticks: 1)
        for stop in stops {
            let offer = stop.keptBy.map { SessionAnswer.Offer(number: 4, epoch: $0) }
            coordinator.stopped(session, offer: offer, hasSettledWills: true, epoch: found + 1, by: stop.node)
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

    /// A session of a node that is gone is found, and looked after.
    func find(_ record: SessionRecord) {
        put(record)
        coordinator.consider(record)
        run(ticks: 8)
    }

    /// A client comes for a session whose node is gone, again and again until that is not waited for any more.
    func claimLeft(_ record: SessionRecord) throws -> UInt64 {
        put(record)
        for _ in 0..<20 {
            comes()
            if case .sessionClaimed(_, _, let epoch)? = take().first { return epoch }
        }
        Issue.record("it is not claimed")
        return 0
    }
}

/// What a shard is told.
extension [FromCluster] {
    /// Where a client's session is that is let in first.
    var origin: SessionOrigin? { if case .sessionClaimed(_, let origin, _)? = first { origin } else { nil } }
    /// Why a client is refused first.
    var refusal: String? { if case .claimFailed(_, let words, _)? = first { words } else { nil } }
    /// What arrives of a session last.
    var lastChunk: SessionChunk? { if case .sessionArrives(_, let piece)? = last { piece } else { nil } }
}

extension NodeID {
    /// Another node.
    static let second = NodeID(store: 2, incarnation: 1)
}

extension SavedWill {
    static func named(_ epoch: UInt64, _ number: UInt64, delay: UInt32 = 0, retain: Bool = false) -> SavedWill {
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
}

extension SessionRecord {
    /// No positions, and no receipts.
    static let savedPlaces: [UInt8] = [0, 0, 0, 0]

    /// Of a session that a node has just claimed.
    static func claimed(_ epoch: UInt64, by node: NodeID) -> SessionRecord {
        SessionRecord(
            epoch: epoch, owners: [Owner(node: node, leaseSequence: 3)], identifier: Array("client".utf8), expiryInterval: 60)
    }

    /// Of a session that the second node has kept.
    static func left(_ wills: [SavedWill] = [], expiry: UInt32 = 60, away: UInt64 = 0, state: [UInt8] = []) -> SessionRecord {
        var record = claimed(1000, by: .second)
        (record.expiryInterval, record.wills, record.awaySince) = (expiry, wills, away)
        if !state.isEmpty { record.saved = Saved(epoch: 1000, state: state, places: savedPlaces) }
        return record
    }
}

extension ClusterPlan {
    /// The plan of a node of cluster "c", with a log.
    static func played(detached: DetachedConduct = .refuse, hasLog: Bool = true) throws -> ClusterPlan {
        var configuration = BrokerConfiguration.default()
        configuration.cluster.servers = ["nats://a"]
        configuration.cluster.name = "c"
        configuration.cluster.detached = detached
        configuration.persistence.isEnabled = hasLog
        configuration.general.nodeName = "n"
        return try #require(try ClusterPlan(configuration))
    }
}
