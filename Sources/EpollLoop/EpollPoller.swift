internal import Glibc
internal import Platform

/// The kernel's epoll, and the eventfd by which other threads end its waits.
final class EpollPoller: Poller {
    private let epoll: FileDescriptor
    /// Registered edge-triggered, so each write is one event and nobody needs to read the counter down.
    private let bell: FileDescriptor

    /// Throws when the kernel has no descriptor or memory left.
    init() throws(SystemError) {
        let bell = try SystemCall.createEvent()
        do throws(SystemError) {
            epoll = try SystemCall.createEpoll()
        } catch {
            bell.close()
            throw error
        }
        self.bell = bell
        // Last: from here on a throw runs deinit, which gives everything back.
        try SystemCall.add(bell, to: epoll, events: .edgeTriggeredReadable, data: .max)
    }

    deinit {
        epoll.close()
        bell.close()
    }

    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError) {
        try SystemCall.add(descriptor, to: epoll, events: EpollEvents(interest), data: data)
    }

    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        SystemCall.modify(descriptor, in: epoll, events: EpollEvents(interest), data: data)
    }

    func remove(_ descriptor: FileDescriptor) { SystemCall.remove(descriptor, from: epoll) }

    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        guard let start = events.baseAddress else { return 0 }
        return SystemCall.wait(epoll, into: start, capacity: events.count, timeoutMilliseconds: timeoutMilliseconds)
    }

    func wake() { SystemCall.signalEvent(bell) }

    func pause(microseconds: UInt32) { usleep(microseconds) }

    var nowMilliseconds: UInt64 { MonotonicClock.milliseconds() }

    var nowMicroseconds: UInt64 { MonotonicClock.microseconds() }
}
