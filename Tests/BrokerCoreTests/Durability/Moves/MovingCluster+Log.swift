import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// What stands in the log, and who reads it.
extension MovingCluster {
    /// Puts what was published into the log.
    func log() {
        collect()
        let due = dueWills.filter { logged.insert($0.will.name).inserted }
        for (node, _, will) in due {
            var record = newRecord(by: node)
            record.append(will)
            append(record, Writer(node: node, run: runs[node], isOfWill: true))
        }
        for _ in unlogged { log(at: 0) }
    }

    /// The same of one of the batches that are not in it.
    func log(at place: Int, settles: Bool = true) {
        let (node, shard, batch) = unlogged.remove(at: place)
        append(batch, from: node)
        nodes[node].cores[shard].received(.logged(through: batch.logSerial))
        if settles { nodes[node].settle() }
    }

    /// Nobody tells a shard what has become of a batch.
    func fail(_ batch: ShardMessageBatch, of node: Int, _ shard: Int) {
        nodes[node].cores[shard].received(
            .logFailed(through: batch.logSerial, FailedBatches(partitions: .max, isRefused: false)))
        nodes[node].settle()
    }

    /// The same of some of a node's batches, the oldest ones.
    func log(someOf node: Int, using random: inout SeededGenerator) {
        collect()
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            guard let place = unlogged.firstIndex(where: { $0.node == node }) else { return }
            log(at: place, settles: random.oneIn(2))
        }
    }

    func append(_ batch: ShardMessageBatch, from node: Int) {
        var record = newRecord(by: node)
        record.append(batch.logged)
        guard !batch.logged.isEmpty else { return }
        append(record, Writer(node: node, run: runs[node]))
    }

    private func newRecord(by node: Int) -> LogRecord {
        var record = LogRecord(partition: partition, sequence: UInt64(records.count + 1))
        record.writer = number(of: node)
        return record
    }

    private func append(_ record: LogRecord, _ writer: Writer) {
        records.append(record)
        writers.append(writer)
    }

    /// The messages of the first records are not in the log any more.
    func forgetRecords(before last: Int) {
        for index in 0..<last {
            let steps = records[index].entries.steps.map { (step: $0.step, session: Array(records[index].bytes[$0.session])) }
            (records[index].bytes, records[index].entries) = ([], LogEntries())
            for (step, session) in steps { records[index].append(step, of: session) }
        }
    }

    /// What nobody has written is not in the log; who waits for that hears nothing.
    func loseUnlogged() { unlogged = [] }

    /// Gives a node's shards what they have not read, up to a record.
    func read(_ node: Int, through last: Int = .max) {
        for core in nodes[node].cores {
            guard let place = core.logPositions[partition] else { continue }
            var next = Int(place.sequence) + 1
            while next <= min(last, records.count), core.takesLog {
                #expect(core.received(record(next, for: node)) == 0)
                next += 1
            }
            if next > ends[node] { core.received(.logIsCurrent(partition)) }
        }
        nodes[node].settle()
    }

    /// A record, by its number, as a node is given it: whether it is of its present run, it knows.
    func record(_ number: Int, for node: Int) -> LogRecord {
        let writer = writers[number - 1]
        var record = records[number - 1]
        record.isOwn = writer.node == node && (writer.isOfWill || writer.run == runs[node])
        return record
    }

    /// What the log says of how far sessions have come, in its order.
    func progress(through last: Int = .max) -> [(step: FlowStep, session: [UInt8])] {
        records.prefix(last).flatMap { record in
            record.entries.steps.filter { $0.step.progress != nil }.map { ($0.step, Array(record.bytes[$0.session])) }
        }
    }

    /// What a node has read of how far a session has come by a claim, if its gateway keeps that in mind.
    func progress(of identifier: [UInt8], savedBy epoch: UInt64, knownTo node: Int) -> [FlowStep] {
        guard remembersProgress else { return [] }
        let read = core(node, identifier).logPositions[partition]?.sequence ?? 0
        return progress(through: Int(read)).filter { $0.step.place.epoch == epoch && $0.session == identifier }.map(\.step)
    }

    /// Gives a session what it lacks, some records or all.
    func replay(_ identifier: [UInt8], at node: Int, countMax: Int = .max) {
        let core = core(node, identifier)
        var left = countMax
        for span in core.replayNeeded(identifier) {
            for sequence in span.after + 1...span.through {
                guard left > 0 else { return nodes[node].settle() }
                left -= 1
                replayedCount += 1
                firstReplayed = min(firstReplayed ?? sequence, sequence)
                #expect(core.reread(record(Int(sequence), for: node), for: .sessions([identifier])) == 0)
                if sequence % 3 == 0 { nodes[node].settle() }
            }
        }
        core.received(.replayed(identifier))
        nodes[node].settle()
    }
}
