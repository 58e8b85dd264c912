import Bytes
import MQTTCodec

@testable import Federation

/// A bridge by itself, whose two sides a test plays.
final class LoneBridge {
    let bridge: Bridge
    /// What the bridge wanted, and has logged.
    private(set) var joins: [LocalJoin] = []
    private(set) var hangUps = 0
    private(set) var warnings: [String] = []
    var now: UInt64 = 0

    init(_ settings: BridgeSettings) { bridge = Bridge(settings, random: SeededGenerator(seed: 1)) }

    /// What this broker answers.
    static let letsIn: [ControlPacket] = [
        .connack(ConnackPacket(sessionPresent: true)), .suback(SubackPacket(packetIdentifier: .max, reasonCodes: [.grantedQoS2])),
    ]

    /// Has the bridge begin, and this broker let it in.
    func start() {
        bridge.start(now: now)
        enter(LoneBridge.letsIn)
    }

    /// Has the bridge connect, and both sides answer.
    func join(_ there: ConnackPacket = ConnackPacket(), here: [ControlPacket] = letsIn) {
        if bridge.report.state == .paused { start() }
        if bridge.local.state == .attaching { enter(LoneBridge.letsIn) }
        now = max(now, bridge.nextDeadline ?? now)
        bridge.advance(now: now)
        bridge.connected(now: now)
        self.there(.connack(there))
        enter(here)
    }

    func enter(_ packets: [ControlPacket], subscribedTo filters: [TopicFilter] = []) {
        bridge.attached(unreleased: [], filters: filters, now: now)
        for packet in packets { here(packet) }
    }

    func here(_ packets: ControlPacket...) {
        packets.flatMap { $0.encoded(version: .v5) }.withUnsafeBytes { bridge.receivedLocally($0, now: now) }
        perform()
    }

    func there(_ packets: ControlPacket...) {
        packets.flatMap { $0.encoded(version: bridge.settings.version) }.withUnsafeBytes { bridge.received($0, now: now) }
        perform()
    }

    private func perform() {
        for effect in bridge.takeEffects() {
            switch effect {
            case .attach(let join): joins.append(join)
            case .hangUp: hangUps += 1
            case .log(.warning, let line): warnings.append(line)
            case .resume: bridge.resume(now: now)
            case .dial, .probe, .openRoom, .forget, .publish, .log, .changed: break
            }
        }
    }

    /// What the bridge has sent to the other broker since the last call, and to this one.
    func sentThere() throws -> [ControlPacket] {
        defer { bridge.farOutput = [] }
        return try packets(bridge.farOutput, bridge.settings.version)
    }

    func sentHere() throws -> [ControlPacket] {
        defer { bridge.localOutput = [] }
        return try packets(bridge.localOutput, .v5)
    }

    private func packets(_ bytes: [UInt8], _ version: ProtocolVersion) throws -> [ControlPacket] {
        var found: [ControlPacket] = []
        let buffer = PacketBuffer()
        bytes.withUnsafeBytes { buffer.append($0) }
        var failure: WireError?
        _ = buffer.drain { firstByte, body, _ in
            do throws(WireError) {
                found.append(try ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: .client))
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        return found
    }
}
