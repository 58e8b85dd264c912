import Administration
import BrokerCore
import BrokerModel
import MQTTCodec
import Platform
import ServerLoops

/// Disconnects all clients, so many a second, and refuses new ones until it is told otherwise. Belongs to the control
/// thread.
///
/// ```
///            begin                  nobody is left
///  serving ───────► draining ─────────────────────► drained ─► the broker ends, if it was asked to
///     ▲                │                               │
///     └────────────────┴────────────── end ────────────┘
/// ```
/// A node of a cluster sends them to the other nodes, and answers those who come, so that they hear of them too.
final class DrainService: AlarmHandler {
    private(set) var status: DrainStatus?
    private let events: EventLoop
    private let mailboxes: [Mailbox<LoopMessage>]
    private let log: Log
    /// How many clients' connections there are.
    private let count: () -> Int
    /// How many clients are logged in; answered later.
    private let countClients: (@escaping (Int) -> Void) -> Void
    /// The addresses of the other nodes of the cluster; nil on a broker that is alone.
    private let otherNodes: () -> [String]?
    /// Ends the broker.
    private let stop: () -> Void
    /// The notice that the loops were given last.
    private var notice: DrainNotice?
    /// Thousandths of clients that may be sent away now.
    private var credit = 0
    private var stepAt: UInt64 = 0
    /// The loop that gets what cannot be parted evenly.
    private var turn = 0
    /// The run of draining that a count is asked for.
    private var run = 0
    private var isCounting = false

    init(
        on events: EventLoop, mailboxes: [Mailbox<LoopMessage>], log: Log, count: @escaping () -> Int,
        countClients: @escaping (@escaping (Int) -> Void) -> Void, otherNodes: @escaping () -> [String]?, stop: @escaping () -> Void
    ) {
        (self.events, self.mailboxes, self.log) = (events, mailboxes, log)
        (self.count, self.countClients, self.otherNodes, self.stop) = (count, countClients, otherNodes, stop)
    }

    /// Refuses new clients, and begins to disconnect those that are connected, or goes on with it as this order says.
    ///
    /// - Parameter now: milliseconds since 1970.
    func begin(_ request: DrainRequest, at now: UInt64) {
        let left = count()
        run += 1
        isCounting = false
        status = DrainStatus(request: request, since: status?.since ?? now, connectionsLeft: left, isDone: false)
        renewNotice()
        let place =
            status.map {
                $0.serverReferences.isEmpty ? "" : " and sent to \(LoggedText($0.serverReferences.joined(separator: " ").utf8))"
            } ?? ""
        log.write(
            .notice,
            "Draining: new connections are refused, and \(left == 1 ? "1 client is" : "\(left) clients are") disconnected\(place), "
                + "\(request.perSecond) a second.")
        credit = 1000
        stepAt = events.nowMilliseconds
        events.setAlarm(at: stepAt, for: self)
    }

    /// Lets clients in again.
    func end() {
        guard status != nil else { return }
        status = nil
        notice = nil
        run += 1
        events.cancelAlarm(for: self)
        log.write(.notice, "Draining is over: connections are accepted again.")
        for mailbox in mailboxes { mailbox.post(.drain(nil)) }
    }

    /// Renews the notice, because the other nodes may have changed.
    func renewNotice() {
        guard let status else { return }
        let others = otherNodes()
        let references = status.request.serverReference.map { [$0] } ?? others ?? []
        self.status?.serverReferences = references
        let notice = DrainNotice(
            serverReferences: Self.rotations(of: references), answersNewcomers: others != nil && !references.isEmpty)
        guard notice != self.notice else { return }
        self.notice = notice
        for mailbox in mailboxes { mailbox.post(.drain(notice)) }
    }

    /// Server References that begin with each address in turn, and name some more behind it.
    static func rotations(of references: [String]) -> [EncodedString] {
        references.indices.compactMap { first in
            let all = references[first...] + references[..<first]
            return EncodedString(all.prefix(Limits.serverReferencesMax).joined(separator: " "))
        }
    }

    func alarmRang() {
        guard let status, !status.isDone else { return }
        let now = events.nowMilliseconds
        if notice?.answersNewcomers == true {
            // Connections come and go all the time: only clients count.
            askForClients()
        } else {
            self.status?.connectionsLeft = count()
            guard !endIfNobodyIsLeft() else { return }
        }
        credit += status.request.perSecond * Int(now - min(now, stepAt))
        stepAt = now
        let due = min(credit / 1000, max(1, status.request.perSecond))
        credit = min(credit - due * 1000, 1_000_000)
        for place in mailboxes.indices {
            let share = due / mailboxes.count + ((place + turn) % mailboxes.count < due % mailboxes.count ? 1 : 0)
            if share > 0 { mailboxes[place].post(.sendAway(share)) }
        }
        turn += 1
        events.setAlarm(at: now + Self.stepMilliseconds, for: self)
    }

    private func askForClients() {
        guard !isCounting else { return }
        isCounting = true
        countClients { [weak self, run] left in
            guard let self, self.run == run else { return }
            isCounting = false
            status?.connectionsLeft = left
            _ = endIfNobodyIsLeft()
        }
    }

    private func endIfNobodyIsLeft() -> Bool {
        guard let status, !status.isDone, status.connectionsLeft == 0 else { return false }
        self.status?.isDone = true
        events.cancelAlarm(for: self)
        log.write(.notice, "Drained: no client is left.")
        if status.request.stops { stop() }
        return true
    }

    /// How often some clients are disconnected.
    private static let stepMilliseconds: UInt64 = 50
}

extension Limits {
    /// How many addresses a disconnected client is told; each client's list begins with another one.
    static let serverReferencesMax = 8
}
