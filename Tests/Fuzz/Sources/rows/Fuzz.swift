import BrokerCore
import BrokerModel
import FuzzKit
import MQTTCodec
import MartletServer
import TestBasics

@testable import BrokerSimulation
@testable import MartletTestKit

/// Rows of a store: table, key, length and body each. Each is read by itself, and a broker starts on all that mean
/// something.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    let choice = script.byte()
    var rows: [StoreTable: [UInt64: [UInt8]]] = [:]
    while !script.isAtEnd {
        let table = script.element(of: StoreTable.allCases)
        let number = UInt64(script.word())
        // A session's number stands in the upper part of a receipt's.
        let key = table == .received ? number << 24 | UInt64(script.byte()) : number << 8 | UInt64(script.byte() & 3)
        let body = script.bytes(Int(script.byte()))
        checkRow(table, key, body)
        rows[table, default: [:]][key] = body
    }
    recover(rows, shards: choice & 1 == 0 ? 1 : 3)
    return 0
}

/// What is read is written as it was.
private func checkRow(_ table: StoreTable, _ key: UInt64, _ body: [UInt8]) {
    let again: [UInt8]? = body.withUnsafeBytes { bytes in
        switch table {
        // Fields that are not known, or say what is so without them, are not written again.
        case .broker:
            StoredBrokerState(decoding: bytes).flatMap { state in
                state.encoded().withUnsafeBytes { StoredBrokerState(decoding: $0) } == state ? body : []
            }
        case .session:
            StoredSession(decoding: bytes).flatMap { session in
                // Properties may come in another order.
                session.encoded().withUnsafeBytes { StoredSession(decoding: $0) } == session ? body : []
            }
        case .subscription:
            StoredSubscription(decoding: bytes).flatMap { subscription in
                subscription.encoded().withUnsafeBytes { StoredSubscription(decoding: $0) } == subscription ? body : []
            }
        case .message: StoredMessage(decoding: bytes)?.encoded()
        case .entry: StoredEntry(decoding: bytes)?.encoded()
        case .flow: StoredFlow(decoding: bytes)?.encoded()
        case .retained:
            StoredRetained(decoding: bytes).flatMap { retained in
                retained.encoded().withUnsafeBytes { StoredRetained(decoding: $0) } == retained ? body : []
            }
        case .received, .relayed: nil
        }
    }
    if let again { expect(again == body, "a row of \(table.name), \(body), is written as \(again)") }
    let text = body.withUnsafeBytes { StoreRowText.json(table, key: key, body: $0) }
    expect(text.hasPrefix("{") && text.hasSuffix("}") && !text.utf8.contains(where: { $0 < 0x20 }), "\(text) is no line of JSON")
}

private func recover(_ rows: [StoreTable: [UInt64: [UInt8]]], shards: Int) {
    let now: UInt64 = 1_000_000
    let cores = (0..<shards).map { index in
        BrokerShard(
            index: index, shardCount: shards, settings: SimulatedBroker.testSettings, seed: 7,
            random: SeededGenerator(seed: 1), sessionCount: SimulatedSessionCount(), now: now,
            isPersistent: true)
    }
    let store = SimulatedStore()
    let batch = JournalBatch()
    var recovery = Recovery(shards: cores, highestKeys: rows.compactMapValues { $0.keys.max() })
    for table in StoreTable.inOrderOfRecovery {
        for (key, body) in (rows[table] ?? [:]).sorted(by: { $0.key < $1.key }) {
            body.withUnsafeBytes { bytes in
                guard recovery.restore(table, key: key, body: bytes) else { return }
                batch.append(JournalRecord(.insert, table, key: key, body: bytes))
            }
        }
    }
    _ = recovery.finish()
    // Once more without the rows that mean nothing, as after `martlet store check`.
    store.write(batch)
    serve(SimulatedBroker(shards: shards, store: store, start: now))
}

private func serve(_ broker: SimulatedBroker) {
    broker.settleTurnsMax = 100_000
    broker.settle()
    for identifier: EncodedString in ["a", "b"] {
        broker.client(identifier).connect(clean: false, expiry: 100)
        broker.settle()
    }
    let reader = broker.connected("reader")
    reader.subscribe("#")
    reader.publish("t", "x", qos: .exactlyOnce)
    broker.advance(seconds: 200)
    broker.stop()
    // Its connections and it hold each other.
    broker.shards = []
}
