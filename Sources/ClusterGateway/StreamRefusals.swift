import BrokerModel
import NATSClient
import Platform
import ServerLoops

/// The streams for whose records the servers have no room, in the servers' words.
///
///     refused ──► told at once, and each minute while it lasts ──► taken, or refused no more
///
/// Belongs to the loop that speaks to the servers.
final class StreamRefusals {
    private struct Refusal {
        var words: String
        /// Whether it is the servers that have no room: then it may be with all streams, and with leases too.
        var isOfServers: Bool
        var at: UInt64
        /// Nothing is told twice in a minute, as of a stream that is filled again whenever there is room.
        var loggedAt: UInt64?
        var isOver = false
        /// Whether it was told, and not yet that it is over.
        var isLogged = false
    }

    private unowned let loop: ShardLoop
    private let cluster: String
    private var refusals: [String: Refusal] = [:]
    /// Called when a stream has no room any more, or has some again.
    private let changed: () -> Void

    init(_ cluster: String, on loop: ShardLoop, changed: @escaping () -> Void) {
        (self.cluster, self.loop, self.changed) = (cluster, loop, changed)
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    /// A record of a stream was refused for want of room.
    func refused(_ stream: String, _ error: JetStreamError) {
        let isNew = refusals[stream]?.isOver ?? true
        defer { if isNew { changed() } }
        var refusal = refusals[stream] ?? Refusal(words: "", isOfServers: false, at: now)
        (refusal.words, refusal.isOfServers, refusal.at, refusal.isOver) = ("\(error)", error.isOfServers, now, false)
        if refusal.loggedAt.map({ now >= $0 + Limits.clusterRefusalLoggedMilliseconds }) ?? true {
            (refusal.loggedAt, refusal.isLogged) = (now, true)
            let remedy =
                error.isOfServers
                ? "\(Self.serversWords), as their logs say" : "nats stream info \(stream) shows how much it may hold"
            log(
                .error,
                "the servers have no room in the stream \(stream): \(error). What belongs there is refused, or waits until there is; "
                    + "\(remedy).")
        }
        refusals[stream] = refusal
    }

    /// A stream has taken a record.
    func taken(_ stream: String) {
        guard var refusal = refusals[stream], !refusal.isOver else { return }
        defer { changed() }
        refusal.isOver = true
        if refusal.isLogged {
            refusal.isLogged = false
            log(.notice, "there is room in the stream \(stream) again.")
        }
        refusals[stream] = refusal
    }

    /// The servers store again: what was refused before that says nothing of now, unless it still is.
    func forgetOld() {
        for (stream, refusal) in refusals where isOld(refusal) { taken(stream) }
    }

    /// Whether it was not said again for longer than what waits for room asks.
    private func isOld(_ refusal: Refusal) -> Bool { now >= refusal.at + Limits.clusterRefusalLastsMilliseconds }

    /// What the servers have no room for, also if they have said so a while ago and nothing since; nil for nothing.
    ///
    /// - Parameter isCurrent: whether only what has just been said counts.
    func words(isCurrent: Bool) -> String? {
        let open = refusals.filter { !$0.value.isOver && !(isCurrent && isOld($0.value)) }.sorted { $0.key < $1.key }
        guard let (stream, refusal) = open.first else { return nil }
        let others = open.count > 1 ? " and \(open.count - 1) other\(open.count == 2 ? "" : "s")" : ""
        return "the servers have no room in the stream \(stream)\(others): \(refusal.words)"
            + (refusal.isOfServers ? "; \(Self.serversWords)" : "")
    }

    private static let serversWords = "their disks are full, or what they may use of them (max_file_store)"

    /// How many streams have no room.
    ///
    /// - Parameter isCurrent: whether only what has just been said counts.
    func count(isCurrent: Bool) -> Int { refusals.values.count { !$0.isOver && !(isCurrent && isOld($0)) } }

    private func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(cluster): \(text)") }
}

extension Limits {
    /// How long a refusal of the servers for want of room counts, in milliseconds, unless it comes again: longer than
    /// what is refused waits until it is tried again.
    static let clusterRefusalLastsMilliseconds: UInt64 = 5000

    /// How often at most it is logged that a stream has no room, in milliseconds.
    static let clusterRefusalLoggedMilliseconds: UInt64 = 60_000
}
