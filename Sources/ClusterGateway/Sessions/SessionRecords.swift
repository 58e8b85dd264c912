import Administration
import Bytes
import Cluster
import JSON
import NATSClient

/// The bucket with the record of each session, and what is asked of it: read from the stream's leader, written by
/// compare-and-set.
///
/// A bounded number of questions is under way; the rest waits in line. Belongs to the loop that speaks to the servers.
final class SessionRecords {
    /// The outcome of a question.
    enum Answer {
        /// The record of a session, and its number; of the tombstone of its end the number, 0 for nothing at all, and
        /// the last epoch.
        case found([UInt8], SessionRecord?, at: UInt64, ended: UInt64 = 0)
        case written([UInt8], number: UInt64, StoreAnswer)
        /// The entry is no record of this session, for this reason.
        case illegible([UInt8], String)
        /// A write that the servers do not take because it is too large.
        case tooLarge([UInt8], number: UInt64)
        /// A record that was to go is gone, or is another's now.
        case removed([UInt8])
        /// The bucket is another one than before: what was in that is lost.
        case lost
    }

    private enum Question {
        case create
        /// What the bucket is that is there.
        case inform
        case read([UInt8])
        case write([UInt8], SessionRecord, expecting: UInt64, number: UInt64)
        case remove([UInt8], epoch: UInt64, expecting: UInt64)
    }

    private let plan: ClusterPlan
    private let bucket: String
    private unowned let connection: NATSConnection
    private let report: (String) -> Void
    /// Is told that the bucket's stream has no room, and why.
    private let refused: (String, JetStreamError) -> Void
    /// Gets what the answers say.
    private let take: (Answer) -> Void
    private var underWayCount = 0
    private var waiting = Deque<Question>()
    /// Whether the bucket is there, and whether it was asked for.
    private var isCreated = false
    /// When it was made, in milliseconds since 1970; nil before that is known.
    private(set) var createdAt: UInt64?
    private var isCreating = false

    init(
        _ plan: ClusterPlan, _ connection: NATSConnection, report: @escaping (String) -> Void,
        refused: @escaping (String, JetStreamError) -> Void, take: @escaping (Answer) -> Void
    ) {
        bucket = "martlet_\(plan.name)_sessions"
        (self.plan, self.connection) = (plan, connection)
        (self.report, self.refused, self.take) = (report, refused, take)
    }

    // MARK: The connection

    func attached() {
        (waiting, isCreated, isCreating) = ([], false, false)
        create()
    }

    /// Asks for the bucket, if it is not known to be there.
    func create() {
        guard !isCreated, !isCreating else { return }
        isCreating = true
        // To ask for one that is there to be made would change when it was made, in the servers' words.
        ask(.inform)
    }

    /// Asks whether the bucket is still the one that it was.
    func look() {
        isCreated = false
        create()
    }

    /// Forgets what was to be asked, since the connection is gone: whoever needs an answer asks again.
    func detached() { waiting = [] }

    /// What the bucket is to be; nil without a connection.
    func stream() -> StreamConfiguration? { connection.session.info.map { plan.bucket(bucket, $0) } }

    private func subject(_ session: [UInt8]) -> Subject? {
        Subject("$KV.\(bucket).\(String(decoding: SubjectSpace.digest(session), as: UTF8.self))")
    }

    // MARK: Questions

    func read(_ session: [UInt8]) { ask(.read(session)) }

    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
        ask(.write(session, record, expecting: sequence, number: number))
    }

    /// Removes a record if its number is this.
    func remove(_ session: [UInt8], epoch: UInt64, expecting sequence: UInt64) {
        ask(.remove(session, epoch: epoch, expecting: sequence))
    }

    private func ask(_ question: Question) {
        waiting.append(question)
        send()
    }

    private func send() {
        while underWayCount < Limits.sessionQuestionsMax, connection.isReady, let question = waiting.popFirst() {
            guard let request = request(for: question) else { continue }
            underWayCount += 1
            connection.request(request, within: Limits.sessionAnswerMillisecondsMax) { [unowned self] answer in
                underWayCount -= 1
                if let known = read(answer, to: question) { take(known) }
                send()
            }
        }
    }

    private func request(for question: Question) -> JetStreamRequest? {
        switch question {
        case .create: return stream().flatMap { .create($0) }
        case .inform: return .information(ofStream: "KV_\(bucket)")
        case .read(let session): return subject(session).flatMap { .get(lastOf: $0, ofStream: "KV_\(bucket)") }
        case .write(let session, let record, let sequence, _):
            return subject(session).flatMap {
                .publish($0, JetStreamRequest.Expectation(lastSubjectSequence: sequence), payload: record.encoded)
            }
        case .remove(let session, let epoch, let sequence):
            var expectation = JetStreamRequest.Expectation(lastSubjectSequence: sequence)
            expectation.isDeletion = true
            expectation.timeToLiveSeconds = Limits.sessionTombstoneSeconds
            return subject(session).flatMap { .publish($0, expectation, payload: SessionRecord.tombstone(endedAt: epoch)) }
        }
    }

    // MARK: Answers

    /// Reads an answer; nil if it says nothing about the record.
    private func read(_ answer: NATSAnswer, to question: Question) -> Answer? {
        guard case .message(let message) = answer else {
            switch question {
            case .create, .inform: (isCreating, isCreated) = (false, false)
            // They are asked again.
            case .read, .remove: break
            case .write(let session, let record, _, let number):
                if case .unsent(.tooLarge(let bytesMax)) = answer {
                    let count = record.encoded.count
                    report("a session's record of \(count) bytes is larger than the servers' max_payload (\(bytesMax))")
                    return .tooLarge(session, number: number)
                }
                guard answer == .nobody else { return nil }
                // There is no leader, or no stream.
                isCreated = false
                return .written(session, number: number, .unavailable)
            }
            return nil
        }
        do throws(JetStreamError) {
            switch question {
            case .create, .inform:
                let members = try JetStreamAnswer.members(message)
                (isCreated, isCreating) = (true, false)
                guard let made = members["created"]?.string.flatMap({ Timestamp.milliseconds($0) }) else { return nil }
                let second = made / 1000 * 1000
                defer { createdAt = second }
                return createdAt.map { $0 < second } == true ? .lost : nil
            case .read(let session): return try found(session, try JetStreamAnswer.last(message))
            case .write(let session, _, _, let number):
                return .written(session, number: number, .stored(at: try JetStreamAnswer.sequence(acknowledgedBy: message)))
            case .remove(let session, _, _):
                try JetStreamAnswer.sequence(acknowledgedBy: message)
                return .removed(session)
            }
        } catch {
            if error.errorCode == JetStreamError.noStreamCode { isCreated = false }
            switch question {
            case .create, .inform:
                if error.errorCode == JetStreamError.noStreamCode {
                    ask(.create)
                } else if error.errorCode == JetStreamError.otherStreamCode {
                    // Somebody else has made it in between, perhaps with other replicas.
                    ask(.inform)
                } else {
                    isCreating = false
                    report("the stream KV_\(bucket): \(error)")
                }
                return nil
            case .read: return nil
            case .write(let session, _, _, let number):
                switch error.outcome {
                case .conflict: return .written(session, number: number, .conflict)
                case .noRoom: refused("KV_\(bucket)", error)
                case .tryAgain where error.isPassing: break
                case .tryAgain, .refused: report("a record could not be stored in the stream KV_\(bucket): \(error)")
                }
                return .written(session, number: number, .unavailable)
            case .remove(let session, _, _): return error.isConflict ? .removed(session) : nil
            }
        }
    }

    private func found(_ session: [UInt8], _ last: LastMessage?) throws(JetStreamError) -> Answer {
        guard let last else { return .found(session, nil, at: 0) }
        if last.isDeletion {
            return .found(session, nil, at: last.sequence, ended: SessionRecord.epoch(ofTombstone: last.payload))
        }
        guard let record = SessionRecord(last.payload) else {
            return .illegible(session, "the cluster's record of the session cannot be read")
        }
        guard record.identifier == session else {
            return .illegible(session, "another Client Identifier has the same key in the cluster")
        }
        return .found(session, record, at: last.sequence)
    }
}

extension Limits {
    /// Seconds for which the tombstone of a session's end is kept.
    static let sessionTombstoneSeconds: UInt64 = 60
}
