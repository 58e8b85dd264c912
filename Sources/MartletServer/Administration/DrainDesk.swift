import Administration
import BrokerCore
import EpollLoop
import MQTTCodec

/// Sends all clients away, so many a second, and keeps the door shut until it is told otherwise. Belongs to the control thread.
///
/// ```
///            begin                  nobody is left
///  serving ───────► draining ─────────────────────► drained ─► the broker ends, if it was asked to
///     ▲                │                               │
///     └────────────────┴────────────── end ────────────┘
/// ```
final class DrainDesk: AlarmHandler {
    private(set) var status: DrainStatus?
    private let events: EventLoop
    private let mailboxes: [Mailbox<LoopLetter>]
    private let log: Log
    /// How many clients' connections there are.
    private let count: () -> Int
    /// Ends the broker.
    private let stop: () -> Void
    /// Thousandths of clients that may be sent away now.
    private var credit = 0
    private var stepAt: UInt64 = 0
    /// The loop that gets what cannot be parted evenly.
    private var turn = 0

    init(
        on events: EventLoop, mailboxes: [Mailbox<LoopLetter>], log: Log, count: @escaping () -> Int, stop: @escaping () -> Void
    ) {
        (self.events, self.mailboxes, self.log) = (events, mailboxes, log)
        (self.count, self.stop) = (count, stop)
    }

    /// Lets nobody in any more, and begins to send the clients away, or goes on with it as this order says.
    ///
    /// - Parameter now: milliseconds since 1970.
    func begin(_ order: DrainOrder, at now: UInt64) {
        let left = count()
        status = DrainStatus(order: order, since: status?.since ?? now, connectionsLeft: left, isDone: false)
        let place = order.serverReference.map { ", to \(LoggedText($0.utf8))" } ?? ""
        log.write(.notice, "Draining: nobody is let in, and \(left) clients are sent away\(place), \(order.perSecond) a second.")
        let notice = DrainNotice(serverReference: order.serverReference.flatMap { EncodedString($0) })
        for mailbox in mailboxes { mailbox.post(.drain(notice)) }
        credit = 1000
        stepAt = events.nowMilliseconds
        events.setAlarm(at: stepAt, for: self)
    }

    /// Lets clients in again.
    func end() {
        guard status != nil else { return }
        status = nil
        events.cancelAlarm(for: self)
        log.write(.notice, "Draining is over: clients are let in again.")
        for mailbox in mailboxes { mailbox.post(.drain(nil)) }
    }

    func alarmRang() {
        guard var status, !status.isDone else { return }
        let now = events.nowMilliseconds
        status.connectionsLeft = count()
        guard status.connectionsLeft > 0 else {
            status.isDone = true
            self.status = status
            log.write(.notice, "Drained: no client is left.")
            if status.order.stops { stop() }
            return
        }
        self.status = status
        credit += status.order.perSecond * Int(now - min(now, stepAt))
        stepAt = now
        let due = min(credit / 1000, max(1, status.order.perSecond))
        credit = min(credit - due * 1000, 1_000_000)
        for place in mailboxes.indices {
            let share = due / mailboxes.count + ((place + turn) % mailboxes.count < due % mailboxes.count ? 1 : 0)
            if share > 0 { mailboxes[place].post(.sendAway(share)) }
        }
        turn += 1
        events.setAlarm(at: now + Self.stepMilliseconds, for: self)
    }

    /// How often some clients are sent away.
    private static let stepMilliseconds: UInt64 = 50
}
