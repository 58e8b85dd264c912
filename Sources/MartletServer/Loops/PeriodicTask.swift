import EpollLoop
import Platform

/// Something that a loop does every so often. Belongs to the loop's thread.
final class PeriodicTask: AlarmHandler {
    private let loop: EventLoop
    private let intervalMilliseconds: UInt64
    private let body: () -> Void

    init(on loop: EventLoop, everyMilliseconds interval: UInt64, body: @escaping () -> Void) {
        self.loop = loop
        intervalMilliseconds = interval
        self.body = body
    }

    func start() {
        loop.setAlarm(at: MonotonicClock.milliseconds() + intervalMilliseconds, for: self)
    }

    func alarmRang() {
        body()
        start()
    }
}
