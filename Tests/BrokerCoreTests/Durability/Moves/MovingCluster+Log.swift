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
            records.append([
                Logged(
                    topic: will.topic, properties: will.properties, payload: will.payload, qos: will.qos, publisher: will.publisher,
                    willOf: node)
            ])
            steps.append(Steps(node: node, run: runs[node], steps: []))
        }
        let batches = unlogged
        unlogged = []
        for (node, shard, batch) in batches {
            append(batch, from: node)
            nodes[node].cores[shard].received(.logged(through: batch.logSerial))
            nodes[node].settle()
        }
    }

    /// The same of some of a node's batches, the oldest ones.
    func log(someOf node: Int, using random: inout SeededGenerator) {
        collect()
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            guard let place = unlogged.firstIndex(where: { $0.node == node }) else { return }
            let (_, shard, batch) = unlogged.remove(at: place)
            append(batch, from: node)
            nodes[node].cores[shard].received(.logged(through: batch.logSerial))
            if random.oneIn(2) { nodes[node].settle() }
        }
    }

    func append(_ batch: ShardMessageBatch, from node: Int) {
        var record: [Logged] = []
        var said: [SessionStep] = []
        batch.forEachMessage { message in
            guard message.isLogged else { return }
            record.append(
                Logged(
                    topic: Array(message.topic), properties: Array(message.properties), payload: Array(message.payload),
                    qos: message.qos, publisher: message.publisher, dispatch: message.dispatch))
            if let step = message.step { said.append(step) }
        }
        batch.forEachLoneStep { said.append($0) }
        guard !record.isEmpty || !said.isEmpty else { return }
        records.append(record)
        steps.append(Steps(node: node, run: runs[node], steps: said))
    }

    /// The messages of the first records are not in the log any more.
    func forgetRecords(before last: Int) { for index in 0..<last { records[index] = [] } }

    /// What nobody has written is not in the log; who waits for that hears nothing.
    func loseUnlogged() { unlogged = [] }

    /// Gives a node's shards what they have not read, up to a record.
    func read(_ node: Int, through last: Int = .max) {
        for core in nodes[node].cores {
            guard let place = core.logPositions[partition] else { continue }
            var next = Int(place.sequence) + 1
            while next <= min(last, records.count), core.takesLog {
                for (index, message) in records[next - 1].enumerated() {
                    let isOwn = message.willOf == node
                    Self.give(message, index) {
                        #expect(core.received($0, partition: partition, sequence: UInt64(next), isOwn: isOwn))
                    }
                }
                let isOwn = isOwn(next, at: node)
                giveSteps(next) { core.received($0, of: $1, partition: partition, sequence: UInt64(next), isOwn: isOwn) }
                core.read(partition: partition, sequence: UInt64(next))
                next += 1
            }
            if next > ends[node] { core.received(.logIsCurrent(partition)) }
        }
        nodes[node].settle()
    }

    /// Whether a record is of the present run of a node.
    func isOwn(_ number: Int, at node: Int) -> Bool {
        steps[number - 1].node == node && steps[number - 1].run == runs[node]
    }

    func giveSteps(_ number: Int, _ body: (FlowStep, UnsafeRawBufferPointer) -> Void) {
        for said in steps[number - 1].steps { said.clientIdentifier.bytes.withUnsafeBytes { body(said.step, $0) } }
    }

    static func give(_ logged: Logged, _ index: Int, _ body: (ClusterMessage) -> Void) {
        logged.topic.withUnsafeBytes { topic in
            logged.properties.withUnsafeBytes { properties in
                logged.payload.withUnsafeBytes { payload in
                    var message = ClusterMessage(
                        topic: topic, properties: properties, payload: payload, qos: logged.qos, retain: false, expiresAt: nil,
                        publisher: logged.publisher, isLogged: true)
                    (message.isWill, message.index, message.dispatch) = (logged.willOf != nil, index, logged.dispatch)
                    body(message)
                }
            }
        }
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
                for (index, message) in records[Int(sequence) - 1].enumerated() {
                    Self.give(message, index) {
                        #expect(core.replay($0, partition: partition, sequence: sequence, for: [identifier]))
                    }
                }
                let isOwn = isOwn(Int(sequence), at: node)
                giveSteps(Int(sequence)) { step, session in
                    guard !isOwn || step.isOfDelivery else { return }
                    core.replay(step, of: session, partition: partition, sequence: sequence, for: [identifier])
                }
                if sequence % 3 == 0 { nodes[node].settle() }
            }
        }
        core.received(.replayed(identifier))
        nodes[node].settle()
    }
}
