import BrokerModel
import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore

/// What can happen to a CONNECT that waits, and when it counts.
@Suite struct PendingConnectTests {
    /// A shard of a cluster that keeps sessions, with one client that comes.
    private final class Newcomer: OutputSink {
        let shard: BrokerShard
        private(set) var id = ConnectionID(slot: 0, generation: 0)
        private(set) var sent: [UInt8] = []
        private(set) var requests: [AuthenticationRequest.Step] = []
        private(set) var claims: [SessionClaim] = []
        private(set) var lines: [String] = []
        private(set) var hasEnded = false

        init(_ change: (inout BrokerSettings) -> Void = { _ in }) {
            shard = BrokerShard(
                index: 0, shardCount: 1,
                settings: SimulatedBroker.testSettings {
                    $0.authenticationMethods = ["NAME"]
                    $0.logTopics = .all
                    change(&$0)
                }, seed: 1, random: SeededGenerator(seed: 1), sessionCount: SimulatedSessionCount(), now: 0,
                isPersistent: true)
            shard.joinCluster(logPartitions: 1, claimsSessions: true, node: 1 << 32 | 1)
            shard.clusterMessaging.clusterIsAway(false)
            id = shard.connected(ConnectionInfo(address: "192.0.2.1"))
            endTurn()
        }

        func send(_ packet: ControlPacket) {
            packet.encoded(version: .v5).withUnsafeBytes { shard.received($0, from: id) }
            endTurn()
        }

        /// CONNECT that begins an enhanced authentication.
        func connect() {
            send(.connect(ConnectPacket(properties: .having { $0.authenticationMethod = "NAME" }, clientIdentifier: "newcomer")))
        }

        func auth() {
            send(.auth(AuthPacket(reasonCode: .continueAuthentication, properties: .having { $0.authenticationMethod = "NAME" })))
        }

        func decide(_ outcome: AuthenticationOutcome) {
            shard.authenticated(id, outcome)
            endTurn()
        }

        func claimed() {
            shard.connecting.sessionClaimed(Array("newcomer".utf8), .nowhere, epoch: 7)
            endTurn()
        }

        private func endTurn() {
            shard.endTurn(into: self) { _, _ in }
            shard.takeEffects { effect in
                switch effect {
                case .authenticate(_, let request): requests.append(request.step)
                case .cluster(.claim(let claim)): claims.append(claim)
                case .log(_, let line, _): lines.append(line)
                case .close: hasEnded = true
                default: break
                }
            }
        }

        func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
            let before = sent.count
            for slice in slices { sent += UnsafeRawBufferPointer(start: slice.base, count: slice.count) }
            return sent.count - before
        }

        /// What CONNACK said; nil before it.
        var connack: ReasonCode? {
            guard sent.first == PacketType.connack.rawValue << 4 else { return nil }
            return ReasonCode(rawValue: sent[3])
        }
    }

    @Test func `a client is let in when its login is accepted and its session is claimed`() {
        let newcomer = Newcomer()
        newcomer.connect()
        #expect(newcomer.requests.count == 1 && newcomer.claims.isEmpty)
        newcomer.decide(.accepted(userName: "user", data: nil))
        #expect(newcomer.claims.map(\.userName) == ["user"] && newcomer.connack == nil)
        newcomer.claimed()
        #expect(newcomer.connack == .success)
    }

    @Test func `an answer counts while it is waited for, and neither before nor behind that`() {
        let newcomer = Newcomer()
        newcomer.decide(.accepted(userName: nil, data: nil))
        newcomer.claimed()
        newcomer.connect()
        // Nobody claims a session whose user is not known.
        newcomer.claimed()
        #expect(newcomer.connack == nil && newcomer.claims.isEmpty)
        newcomer.decide(.accepted(userName: nil, data: nil))
        // The login is decided.
        newcomer.decide(.refused(.notAuthorized))
        #expect(newcomer.connack == nil && newcomer.claims.count == 1)
        newcomer.claimed()
        #expect(newcomer.connack == .success)
    }

    @Test func `AUTH goes on with a login that goes on, and with no other`() {
        let newcomer = Newcomer()
        newcomer.connect()
        newcomer.auth()
        #expect(newcomer.requests.count == 2)
        newcomer.decide(.accepted(userName: nil, data: nil))
        newcomer.auth()
        #expect(newcomer.requests.count == 2 && newcomer.connack == .protocolError && newcomer.hasEnded)
    }

    @Test func `who asks for a login and goes is not asked about any more`() {
        let newcomer = Newcomer()
        newcomer.connect()
        newcomer.shard.closed(newcomer.id)
        newcomer.decide(.accepted(userName: nil, data: nil))
        #expect(newcomer.claims.isEmpty && newcomer.sent.isEmpty)
        let isAbandoned = newcomer.requests.contains { if case .abandon = $0 { true } else { false } }
        #expect(isAbandoned)
    }

    @Test func `a client is told that its listener was closed while its CONNECT was on its way`() {
        let newcomer = Newcomer()
        var settings = newcomer.shard.settings
        settings.listeners.append(ListenerPolicy())
        newcomer.shard.apply(settings)
        settings.listeners[1].isClosed = true
        newcomer.shard.apply(settings)
        let id = newcomer.shard.connected(ConnectionInfo(address: "192.0.2.2", listener: 1))
        let bytes = ControlPacket.connect(ConnectPacket(clientIdentifier: "late")).encoded(version: .v5)
        bytes.withUnsafeBytes { newcomer.shard.received($0, from: id) }
        newcomer.connect()
        #expect(newcomer.connack == .serverUnavailable)
    }

    @Test func `the log names a client that has no certificate by what it calls itself`() {
        let newcomer = Newcomer { $0.listeners[0].userNameSource = .identity }
        newcomer.connect()
        #expect(newcomer.connack == .badUserNameOrPassword)
        let line = newcomer.lines.first { $0.hasPrefix("Login failed") }
        #expect(
            line == "Login failed from 192.0.2.1: no certificate or key that names a user, client 'newcomer'.")
    }
}
