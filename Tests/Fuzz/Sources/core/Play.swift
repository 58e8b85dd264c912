import BrokerCore
import BrokerModel
import FuzzKit
import MQTTCodec

@testable import BrokerSimulation
@testable import MartletTestKit

/// One run: a broker, its store if it has one, and the connections to it.
struct Play {
    var script: ByteScript
    var broker: SimulatedBroker
    let store: SimulatedStore?
    var connections: [Visitor] = []
    /// What the broker is told to do from now on.
    var settings: BrokerSettings
    /// Whether the store has failed for good, so that it may hold anything.
    var hasFailed = false
    /// Bytes of payload that may be sent still: a script is short, and so is its run.
    var payloadBytesLeft = 150_000

    /// The first bytes: shards and store, settings, chance.
    init(_ bytes: ByteScript) {
        script = bytes
        let choice = script.byte()
        settings = Scenery.settings(script.byte(), script.byte())
        store = choice & 2 == 0 ? nil : SimulatedStore()
        broker = SimulatedBroker(
            shards: choice & 1 == 0 ? 1 : 3, settings: settings, seed: UInt64(script.byte()), store: store)
        begin()
    }

    private func begin() {
        // More than a turn for each byte.
        broker.settleTurnsMax = 300_000
        broker.authenticate = Self.judge
    }

    mutating func run() {
        var actions = 0
        while !script.isAtEnd, actions < Self.actionsMax {
            act()
            actions += 1
        }
        end()
    }

    private static let actionsMax = 400

    // MARK: Acts

    private mutating func act() {
        switch script.below(24) {
        case 0: open()
        case 1: visitor()?.connect(&script)
        case 2: visitor()?.subscribe(&script)
        case 3: visitor()?.unsubscribe(&script)
        case 4, 5: publish()
        case 6: visitor()?.acknowledge(&script)
        case 7: visitor()?.sendControl(&script)
        case 8: visitor()?.sendRaw(script.bytes(script.below(64)))
        case 9: for _ in 0..<1 + script.below(8) { broker.step() }
        case 10: settle()
        case 11: pass([1, 10, 100, 1000, 5000, 31_000, 100_000, 400_000][script.below(8)])
        case 12: visitor()?.connection.isReading.toggle()
        case 13: visitor()?.connection.flushBytesMax = [nil, 1, 7, 100, 5000][script.below(5)]
        case 14: visitor()?.connection.delivery = [.joined, .separate, .byteByByte][script.below(3)]
        case 15: visitor()?.connection.close(dropsUnsent: script.below(2) == 0)
        case 16: visitor()?.answers.toggle()
        case 17: visitor()?.mangle = (position: script.below(64), mask: script.byte())
        case 18: reload()
        case 19: changeStore()
        case 20: crash()
        case 21: answerLogin()
        case 22: operate()
        default: meet()
        }
        for visitor in connections { visitor.look() }
    }

    private mutating func visitor() -> Visitor? {
        connections.isEmpty ? nil : connections[script.below(connections.count)]
    }

    @discardableResult
    private mutating func open() -> Visitor? {
        connections.removeAll { $0.connection.isClosed }
        guard connections.count < 10 else { return nil }
        let visitor = Visitor(broker.open(listener: script.below(3)))
        connections.append(visitor)
        return visitor
    }

    /// What most scripts begin with: a client that connects, and answers what it gets.
    private mutating func meet() {
        guard let visitor = open() else { return }
        visitor.answers = true
        visitor.connect(&script)
        broker.settle()
    }

    private mutating func publish() {
        let count = min(Scenery.payloadCounts[script.below(Scenery.payloadCounts.count)], payloadBytesLeft)
        payloadBytesLeft -= count
        visitor()?.publish(&script, payloadCount: count)
    }

    private func settle() { broker.settle() }

    private func pass(_ milliseconds: UInt64) { broker.advance(milliseconds: milliseconds) }

    private mutating func reload() {
        settings = Scenery.settings(script.byte(), script.byte())
        for core in broker.cores { core.apply(settings) }
    }

    private mutating func changeStore() {
        let mode: SimulatedStore.Mode = [.prompt, .paused, .full, .failed][script.below(4)]
        if mode == .failed { hasFailed = true }
        store?.mode = hasFailed ? .failed : mode
    }

    private mutating func crash() {
        let choice = script.byte()
        guard let store, !hasFailed else { return }
        var shards: Int?
        if choice & 1 == 0 {
            store.mode = .prompt
            broker.stop()
            if store.hasEnded { shards = choice & 2 == 0 ? 1 : 3 }
        }
        let committing = Int(choice >> 2) % (store.waitingCount + 1)
        let former = broker
        broker = former.crashed(committing: committing, afterMilliseconds: UInt64(choice) * 20, shards: shards)
        // Its connections and it hold each other.
        former.shards = []
        begin()
        connections = []
    }

    private mutating func answerLogin() {
        let choice = script.byte()
        guard let login = broker.pendingAuthentications.first else { return }
        let outcome: AuthenticationOutcome
        switch choice & 3 {
        case 0: outcome = .refused(.notAuthorized)
        case 1: outcome = .refused(.serverBusy)
        default: outcome = .accepted(userName: choice & 4 == 0 ? nil : "carl", data: nil)
        }
        broker.answer(login, outcome)
    }

    private mutating func operate() {
        let choice = script.byte()
        let core = broker.cores[Int(choice >> 4) % broker.shardCount]
        switch choice & 3 {
        case 0: core.listSubscriptions()
        case 1: core.disconnect(Scenery.identifiers[Int(choice >> 2) % 5])
        case 2: core.publishLogLine(topic: "$SYS/broker/log/N", text: "line")
        default: core.recordHeap(byteCount: 1 << 20)
        }
    }

    private static func judge(_ request: AuthenticationRequest) -> AuthenticationOutcome? {
        switch request.step {
        case .password(let userName, _): userName == "bert" ? nil : .accepted(userName: nil, data: nil)
        case .begin: .challenge(data: [1])
        case .proceed(_, let data):
            data == [2] ? .accepted(userName: "anna", data: [3]) : data == [1] ? nil : .refused(.notAuthorized)
        case .abandon: nil
        }
    }
}
