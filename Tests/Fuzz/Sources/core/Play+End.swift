import FuzzKit
import MartletTestKit

@testable import BrokerCore
@testable import BrokerModel

/// The end of a run.
extension Play {
    /// Everybody goes, all sessions come to their end, and of what the broker had only retained messages are left.
    mutating func end() {
        leave()
        // No messages of the broker's own any more, which would come all through the hour.
        settings.systemIntervalSeconds = 0
        for core in broker.cores { core.apply(settings) }
        broker.advance(seconds: UInt64(Scenery.sessionSecondsMax) + 100)
        for core in broker.cores { checkEmpty(core) }
        checkStore()
    }

    private func leave() {
        if !hasFailed { store?.mode = .prompt }
        for visitor in connections {
            visitor.answers = false
            visitor.connection.flushBytesMax = nil
            visitor.connection.isReading = true
        }
        broker.commit()
        for visitor in connections {
            visitor.look()
            visitor.connection.close()
        }
        broker.settle()
    }

    private func checkEmpty(_ core: BrokerShard) {
        let statistics = core.currentStatistics()
        expect(core.connections.count == 0, "\(core.connections.count) connections are left")
        expect(core.sessions.count == 0, "\(core.sessions.count) sessions are left")
        expect(statistics.clientsConnected == 0, "\(statistics.clientsConnected) clients count as connected")
        expect(statistics.subscriptions == 0, "\(statistics.subscriptions) subscriptions count")
        expect(statistics.sharedSubscriptions == 0, "\(statistics.sharedSubscriptions) shared subscriptions count")
        expect(core.tree.records.count == 0, "\(core.tree.records.count) subscriptions are left")
        expect(core.tree.nodes.count == 1, "\(core.tree.nodes.count) nodes of subscriptions are left")
        expect(core.groups.count == 0, "\(core.groups.count) share groups are left")
        expect(core.scans.isEmpty, "the scans of \(core.scans.sessions.count) sessions are left")
        expect(!core.shardMessages.isBarred, "a SUBACK waits still")
        expect(
            core.policy.memory.inbound == 0 && core.policy.memory.ofNewcomers == 0,
            "\(core.policy.memory.inbound) bytes count that came in part")
        expect(core.policy.memory.sessions == 0, "\(core.policy.memory.sessions) bytes of sessions count")
        expect((core.sessions.ofBroker as? SimulatedSessionCount)?.value == 0, "sessions are counted")
        expect(
            core.sessions.fullElsewhere.isEmpty && core.room.ofStore.isEmpty && core.room.ofQueues.isEmpty,
            "somebody waits for room")
        expect(core.receipts.isEmpty, "receipts of QoS 2 are left")
        expect(core.wheel.count == (core.inspection.systemReport.isOn ? 1 : 0), "\(core.wheel.count) timers are left")
        expect(core.ledger.count == core.retained.count, "\(core.ledger.count) messages, \(core.retained.count) retained")
        guard !hasFailed else { return }
        expect(core.isIdle, "the shard is busy still")
        expect(core.durability?.heldCount ?? 0 == 0, "\(core.durability?.heldCount ?? 0) packets are held")
    }

    private func checkStore() {
        guard let store, !hasFailed else { return }
        for table in StoreTable.allCases where table != .broker && table != .retained {
            let rows = store.rows[table] ?? [:]
            expect(rows.isEmpty, "\(rows.count) rows of \(table.name) are left")
        }
    }
}
