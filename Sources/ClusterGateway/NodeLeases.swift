import Administration
import Cluster
import JSON
import NATSClient

/// The leases of the cluster's nodes: each renews one in a bucket of the servers, and reads who else has one.
///
/// ```
///   making the bucket ──► writing the lease ──► reading the list ──► a pause ──► writing …
///         │                    └──► looking for what is there instead ──► writing
///         └──► comparing (it is there, and another one)
/// ```
/// A node writes its own lease before it reads the list for the first time. What fails is tried again after a pause; a
/// lease that is not renewed ends by itself, and the next one is another node's: see `NodeLease`, `begin(as:)`.
struct NodeLeases {
    enum Step: Equatable {
        case create
        case compare
        case write
        case find
        case read
    }

    enum Outcome: Equatable {
        case goesOn
        /// All that hold a lease, by all entries of the bucket up to this number.
        case nodes([NodeID], through: UInt64)
        /// The request failed, for this reason; it is tried again. `refusal`: what the servers had no room for.
        case failed(String, refusal: JetStreamError? = nil)
    }

    private let bucket: String
    private var node: NodeID
    private let nodeName: String
    private let plan: ClusterPlan
    private var step = Step.compare
    /// When the step is due; nil while its answer is awaited, and without a connection.
    private(set) var dueAt: UInt64?
    private var lease = Self.newLease
    /// When the entry was asked for that is on its way.
    private var askedAt: UInt64 = 0
    /// The number of this node's entry, as far as it is known; 0 for none.
    private var entry: UInt64 = 0
    /// When the bucket was made, in seconds since 1970: numbers of a later one are behind all of an earlier one.
    private var createdAt: UInt64 = 0
    /// Of the newest list that was read, and how many older ones have come since.
    private var listedThrough: UInt64 = 0
    private var olderLists = 0
    /// The nodes of the newest list.
    private var listed: Set<NodeID> = []
    /// Until when a list says nothing of those that it lacks: this node's own entry went before its time, as others'
    /// may have gone while they act by it.
    private var absenceCountsAt: UInt64 = 0
    private var failures = 0
    /// Of the bucket, where it has another number of replicas than is wanted.
    private(set) var otherReplicas: (stream: String, found: Int, wanted: Int)?

    init(_ plan: ClusterPlan, node: NodeID) {
        bucket = "martlet_\(plan.name)_nodes"
        (self.node, nodeName, self.plan) = (node, plan.nodeName, plan)
    }

    /// Begins, on a new connection.
    mutating func begin(now: UInt64) { (step, dueAt) = (.compare, now) }

    mutating func end() { dueAt = nil }

    // MARK: The right to act

    /// What names this node in the records of sessions while its lease lasts; nil without one.
    func holder(now: UInt64) -> SessionRecord.Owner? {
        guard lease.mayAct(now: now), createdAt > 0 else { return nil }
        return SessionRecord.Owner(node: node, leaseSequence: place(lease.firstSequence))
    }

    /// When the lease ends unless it is renewed, or 0 if it has; nil without one.
    var endsAt: UInt64? {
        switch lease.state {
        case .none: nil
        case .held(let until): until
        case .ended: 0
        }
    }

    /// Whether the lease has ended: this node is nobody any more.
    func hasEnded(now: UInt64) -> Bool { endsAt.map { $0 <= now } ?? false }

    /// Begins again after a lease has ended, on a node for which no other node acts: the next lease is asked for like
    /// the first.
    mutating func beginAgain() { lease = Self.newLease }

    /// Goes on as another incarnation after a lease has ended; to be called without a connection.
    mutating func begin(as node: NodeID) {
        listed.remove(self.node)
        (self.node, lease, entry) = (node, Self.newLease, 0)
        end()
    }

    private static var newLease: NodeLease {
        NodeLease(lifeMilliseconds: Limits.leaseSeconds * 1000, allowanceMilliseconds: Limits.leaseAllowanceMilliseconds)
    }

    /// A number of the bucket that grows even if the servers have lost it and it is made anew.
    private func place(_ sequence: UInt64) -> UInt64 { createdAt << 32 | sequence & 0xffff_ffff }

    var streamName: String { "KV_\(bucket)" }

    // MARK: Requests

    /// The next request, if it is time for one; `answered` has to follow.
    mutating func next(now: UInt64, info: ServerInfo) -> JetStreamRequest? {
        guard let dueAt, dueAt <= now else { return nil }
        self.dueAt = nil
        switch step {
        case .create: return .create(plan.bucket(bucket, info))
        case .compare: return .information(ofStream: streamName)
        case .write:
            askedAt = now
            var expectation = JetStreamRequest.Expectation(lastSubjectSequence: entry)
            expectation.timeToLiveSeconds = Limits.leaseSeconds
            return subject.flatMap { .publish($0, expectation, payload: Array(nodeName.utf8)) }
        case .find: return subject.flatMap { .get(lastOf: $0, ofStream: streamName) }
        case .read: return SubjectPattern("\(prefix)>").flatMap { .information(ofStream: streamName, subjects: $0) }
        }
    }

    /// The request that ends this node's lease at once.
    var goodbye: JetStreamRequest? { subject.flatMap { .purge($0, ofStream: streamName) } }

    private var prefix: String { "$KV.\(bucket)." }
    private var subject: Subject? { Subject("\(prefix)\(node)") }

    // MARK: Answers

    /// Takes the answer to the last request.
    mutating func answered(_ answer: NATSAnswer, now: UInt64, info: ServerInfo) -> Outcome {
        switch answer {
        case .message(let message):
            do throws(JetStreamError) {
                if step == .find {
                    found(try JetStreamAnswer.last(message), now: now)
                    return .goesOn
                }
                return try advance(try JetStreamAnswer.members(message), now: now, info: info)
            } catch {
                // It is made where it is not there: to ask for it anew would change when it was made, in the servers'
                // words.
                if step == .compare, error.errorCode == JetStreamError.noStreamCode {
                    (step, dueAt) = (.create, now)
                    return .goesOn
                }
                if step == .create, error.errorCode == JetStreamError.otherStreamCode {
                    (step, dueAt) = (.compare, now)
                    return .goesOn
                }
                if step == .write, error.isConflict {
                    (step, dueAt) = (.find, now)
                    return .goesOn
                }
                // Of a stream that is there "insufficient resources" is said of disks.
                let remark = error.lacksServers && step == .create ? plan.replicasRemark(info) : ""
                let refusal = error.lacksRoom && step != .create ? error : nil
                return failed("JetStream, stream \(streamName): \(error)\(remark)", now, refusal)
            }
        case .nobody:
            return failed(
                "JetStream does not answer there: its servers lack their majority, or the stream \(streamName) has no "
                    + "leader yet or no room, which the servers' logs say; or it is not switched on (nats-server --jetstream, or a "
                    + "block jetstream {})",
                now)
        case .late: return failed("JetStream does not answer: its servers may lack a majority", now)
        case .lost: return .goesOn
        case .unsent:
            dueAt = now + Limits.leaseRetryMilliseconds
            return .goesOn
        }
    }

    private mutating func advance(_ members: JSONMembers, now: UInt64, info: ServerInfo) throws(JetStreamError) -> Outcome {
        switch step {
        case .create: (step, dueAt) = (.write, now)
        case .compare:
            let (wanted, found) = (plan.bucket(bucket, info), members["config"]?.object)
            let differences = found.map { wanted.differences(in: $0) } ?? ["it has no configuration"]
            otherReplicas = found.flatMap { wanted.otherReplicas(in: $0) }.map { (wanted.name, $0, wanted.replicas) }
            // Replicas may be changed by whoever runs the servers.
            guard differences.allSatisfy({ $0.hasPrefix("num_replicas") }) else {
                return failed(
                    "the stream \(streamName) has another configuration than nodes need: \(differences.joined(separator: "; "))",
                    now
                )
            }
            (step, dueAt) = (.write, now)
        case .write:
            guard let sequence = members["seq"]?.integer, sequence > 0 else {
                throw JetStreamError(code: 500, text: "the acknowledgement has no number")
            }
            entry = UInt64(sequence)
            lease.renewed(askedAt: askedAt, at: entry, now: now)
            failures = 0
            (step, dueAt) = (.read, now)
        case .find: return .goesOn
        case .read:
            (step, dueAt) = (.write, max(now, askedAt + Limits.leaseRenewalMilliseconds))
            let state = members["state"]?.object
            let subjects = state?["subjects"]?.object?.names ?? []
            createdAt = max(1, (members["created"]?.string.flatMap { Timestamp.milliseconds($0) } ?? 0) / 1000)
            let through = place(UInt64(clamping: state?["last_seq"]?.integer ?? 0))
            // That it lacks a node says nothing: who answers may not have got so far. Of a bucket that was brought back
            // from a copy it goes on being so.
            olderLists = through < listedThrough ? olderLists + 1 : 0
            guard olderLists == 0 || olderLists > Limits.olderListsMax else { return .goesOn }
            listedThrough = through
            let nodes = Set(subjects.compactMap { UInt64($0.dropFirst(prefix.count), radix: 16).map { NodeID($0) } })
            if listed.contains(node), !nodes.contains(node) { hasLostEntry(now: now) }
            listed = now < absenceCountsAt ? listed.union(nodes) : nodes
            return .nodes(listed.sorted(), through: through)
        }
        return .goesOn
    }

    /// Handles an entry that is another than was expected, or missing.
    private mutating func found(_ last: LastMessage?, now: UInt64) {
        if last == nil, entry > 0, lease.mayAct(now: now) { hasLostEntry(now: now) }
        entry = last?.sequence ?? 0
        lease.conflicted(found: last?.sequence, now: now)
        (step, dueAt) = (.write, now)
    }

    /// The bucket was deleted or emptied: who acts by an entry that is gone may do so until it would have ended.
    private mutating func hasLostEntry(now: UInt64) { absenceCountsAt = now + Limits.leaseSeconds * 1000 }

    /// A bucket that is gone is made anew; while it changes its leader that is of no use.
    private mutating func failed(_ reason: String, _ now: UInt64, _ refusal: JetStreamError? = nil) -> Outcome {
        failures += 1
        let isWriting = step == .write || step == .find || step == .read
        (step, dueAt) = (isWriting && failures % 3 != 0 ? .write : .compare, now + Limits.leaseRetryMilliseconds)
        return .failed(reason, refusal: refusal)
    }
}

extension Limits {
    /// How long a node counts as one that does not renew its lease, in seconds. Its clients are to stay when the
    /// servers choose another leader, for which nats-server 2.14 waits 4 to 9 s, mostly 6: it is that, the allowance, a
    /// renewal that was due, and 1.5 s to be asked again.
    static let leaseSeconds: UInt64 = 13

    /// How much earlier than the servers a node counts its own lease as ended, in milliseconds: for clocks that differ,
    /// and for the time that it takes to stop.
    static let leaseAllowanceMilliseconds: UInt64 = 1500

    /// Lists of leases that are passed over because an earlier one went further; the next one counts.
    static let olderListsMax = 10

    /// Milliseconds after which is tried again what did not work.
    static let leaseRetryMilliseconds: UInt64 = 500
}
