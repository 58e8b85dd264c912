import BrokerCore
import BrokerModel
import Cluster
import MQTTCodec
import NATSClient
import ServerLoops

/// The entries that are to be in the log.
extension LogLane {
    /// A batch of a shard is not to be logged.
    func refuse(_ serial: UInt64, of shard: Int) {
        ledger.done(ledger.begin(serial, of: shard), .unknown)
        settle()
    }

    /// A batch of a shard is to be logged: `append` for its messages, and `end`, with the token that this returns.
    func begin(_ serial: UInt64, of shard: Int) -> UInt64 { ledger.begin(serial, of: shard) }

    func append(_ message: BusMessage, _ step: SessionStep?, token: UInt64) {
        let partition = partitions[BrokerShard.logPartition(of: message.topic, among: partitions.count)]
        ledger.add(token)
        // The lowest bit of a publisher says nothing.
        guard let step else {
            return partition.writer.append(.message(message), publisher: message.publisher >> 1, token: token, now: now, partition)
        }
        step.withEntry {
            partition.writer.append(
                .message(message), receipt: $0, publisher: message.publisher >> 1, token: token, now: now, partition)
        }
    }

    /// A client has released a packet identifier; or a session is taken up here, which every partition is to have.
    func append(_ step: SessionStep, token: UInt64) {
        let index = step.clientIdentifier.bytes.withUnsafeBytes { BrokerShard.logPartition(of: $0, among: partitions.count) }
        for partition in step.step.kind == .mark ? partitions : [partitions[index]] {
            ledger.add(token)
            step.withEntry {
                partition.writer.append(
                    nil, receipt: $0, publisher: step.publisher >> 1, token: token | Self.noMessage, now: now, partition)
            }
        }
    }

    /// Behind all of a publisher's messages so far that are logged where those of a topic are.
    func place(of publisher: UInt64, _ topic: UnsafeRawBufferPointer) -> (partition: Int, place: Cluster.LogWriter.Place) {
        let partition = BrokerShard.logPartition(of: topic, among: partitions.count)
        return (partition, partitions[partition].writer.place(of: publisher >> 1))
    }

    /// Whether all of them are in the log, or given up.
    func hasPassed(_ ahead: (partition: Int, place: Cluster.LogWriter.Place)) -> Bool {
        partitions[ahead.partition].writer.hasPassed(ahead.place)
    }

    /// Lets all nodes know up to where this one is done with what share groups have dealt it.
    func tell(dealtThrough sequence: UInt64, _ partition: Int) {
        let one = partitions[partition]
        one.writer.append(.dealt(through: sequence), publisher: 0, token: Self.noToken, now: now, one)
        settle()
    }

    /// Says that this node would deal for one that is gone; `whenInherited` follows, if the log takes it.
    func tell(heirOf gone: NodeID) { sendToAll(.heir(of: gone)) }

    /// Says that a node is gone: what it has in the log behind that does not count.
    func tell(gone: NodeID) { sendToAll(.gone(gone)) }

    func sendToAll(_ entry: Bundle.Entry) {
        for one in partitions { one.writer.append(entry, publisher: 0, token: Self.noToken, now: now, one) }
        settle()
    }

    /// Nobody waits for it.
    private static let noToken: UInt64 = 0
    /// With the token of what is written for who waits until it is read.
    private static let toBeRead: UInt64 = 1 << 62
    /// With the token of what is no message.
    private static let noMessage: UInt64 = 1 << 63

    /// Calls `then` when all has been read that others have written before they went.
    func whenRead(_ then: @escaping () -> Void) {
        lastReader += 1
        readers.append(LogReader(number: lastReader, partitions: partitions.indices, then: then))
        unwritten += partitions.indices.map { (lastReader, $0) }
        settle()
    }

    /// Something that says nothing, behind what others have written.
    func write(for reader: UInt64, _ partition: LogPartition) {
        let nothing = LoggedReceipt(epoch: 0, number: 0, packetIdentifier: 0, digest: nil)
        let nobody = UnsafeRawBufferPointer(start: nil, count: 0)
        partition.writer.append(
            nil, receipt: .receipt(session: nobody, nothing), publisher: 0, token: reader | Self.toBeRead | Self.noMessage,
            now: now, partition)
    }

    func recordEnd(_ sequence: UInt64, of partition: LogPartition, for reader: UInt64) {
        for index in readers.indices where readers[index].number == reader { readers[index].ends[partition.index] = sequence }
    }

    func settleReaders() {
        guard !readers.isEmpty else { return }
        let ready = readers.filter { $0.hasRead(readThrough) }
        readers.removeAll { $0.hasRead(readThrough) }
        for reader in ready { reader.then() }
    }

    func end(_ token: UInt64) {
        ledger.done(token)
        settle()
    }

    func store(_ record: [UInt8], messageID: String, lane: Int, number: UInt64, _ partition: LogPartition) {
        lastToken += 1
        let expectation = JetStreamRequest.Expectation(messageIdentifier: messageID)
        guard let request = JetStreamRequest.publish(partition.subject, expectation, payload: record) else {
            preconditionFailure("an identifier has no line break")
        }
        do throws(NATSRefusal) {
            try connection.request(
                request.subject, headers: request.headers, payload: request.payload, token: lastToken,
                within: Limits.logAnswerMillisecondsMax)
            asked[lastToken] = (partition.index, lane, number)
        } catch {
            var answer = LogAnswer.unavailable
            if case .tooLarge(let bytesMax) = error {
                answer = .refused
                log(
                    .warning,
                    "a message with \(record.count) bytes is larger than the servers' max_payload (\(bytesMax)): it is not logged."
                )
            }
            unasked.append((partition.index, lane, number, answer))
        }
    }

    func stored(_ token: UInt64, at sequence: UInt64, _ partition: LogPartition) {
        guard token != Self.noToken else { return }
        guard token & Self.toBeRead == 0 else {
            return recordEnd(sequence, of: partition, for: token & (Self.toBeRead - 1))
        }
        if token & Self.noMessage == 0 { counters.written += 1 }
        ledger.done(token & ~Self.noMessage)
    }

    func failed(_ token: UInt64, _ failure: LogFailure, _ partition: LogPartition) {
        guard token != Self.noToken else { return }
        guard token & Self.toBeRead == 0 else {
            let reader = token & (Self.toBeRead - 1)
            // A log that takes nothing is not waited for; one that has no room is.
            return failure == .refused ? recordEnd(0, of: partition, for: reader) : unwritten.append((reader, partition.index))
        }
        if token & Self.noMessage == 0 { counters.failed += 1 }
        ledger.done(token & ~Self.noMessage, failure)
    }

    /// What has become of a request; false if it was another's.
    func answered(_ token: UInt64, _ answer: NATSAnswer) -> Bool {
        guard let (index, lane, number) = asked.removeValue(forKey: token) else { return false }
        let partition = partitions[index]
        if let answer = read(answer, partition) {
            partition.writer.answered(lane: lane, number: number, answer, now: now, partition)
        }
        settle()
        return true
    }

    /// nil if nothing is known.
    func read(_ answer: NATSAnswer, _ partition: LogPartition) -> LogAnswer? {
        switch answer {
        case .message(let message):
            do throws(JetStreamError) {
                return .stored(at: try JetStreamAnswer.acknowledgement(message).sequence)
            } catch {
                guard !error.lacksRoom else {
                    refusals.refused(Self.streamName(partition.index, plan), error)
                    return .noRoom
                }
                if error.code >= 500 || error.code == 408 || error.code == 409 { return .unavailable }
                log(.warning, "a record could not be written to the log: \(error).")
                return .refused
            }
        case .nobody: return .unavailable
        case .late, .lost: return nil
        }
    }

    /// Tells the shards what has become of their batches, and whether too much waits.
    func settle() {
        guard !isSettling else { return }
        isSettling = true
        defer { isSettling = false }
        while !unasked.isEmpty {
            let taken = unasked
            unasked = []
            for (index, lane, number, answer) in taken {
                partitions[index].writer.answered(lane: lane, number: number, answer, now: now, partitions[index])
            }
        }
        let unwritten = unwritten
        self.unwritten = unwritten.filter { partitions[$0.partition].writer.lacksRoom }
        for (reader, index) in unwritten where !partitions[index].writer.lacksRoom { write(for: reader, partitions[index]) }
        settleReaders()
        settleRoom()
        for outcome in ledger.take() {
            loop.loops[outcome.shard].post(.logged(serial: outcome.serial, failure: outcome.failure), from: loop)
        }
        let state = (isFull: partitions.contains { $0.writer.isFull }, isAway: !isAttached)
        guard state != told else { return }
        told = state
        for other in loop.loops { other.post(.logIsFull(state.isFull, isAway: state.isAway), from: loop) }
    }

    /// Tells which partitions have no room, before what has come of that.
    private func settleRoom() {
        var lacking: UInt64 = 0
        for partition in partitions where partition.writer.lacksRoom { lacking |= 1 << UInt64(partition.index) }
        guard lacking != toldLacking else { return }
        for partition in partitions where (toldLacking & ~lacking) >> UInt64(partition.index) & 1 == 1 {
            refusals.taken(Self.streamName(partition.index, plan))
        }
        toldLacking = lacking
        for other in loop.loops { other.post(.logLacksRoom(lacking), from: loop) }
    }
}
