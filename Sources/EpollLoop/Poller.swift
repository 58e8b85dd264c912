package import CLinux
package import Platform

/// What an event loop needs of the kernel: which descriptors are ready, a way to sleep until one is, and the time.
///
/// `EpollPoller` is the kernel's; tests put another in its place, on a simulated clock, and the loop's own code runs all the same. Called once
/// for each system call that it stands for, never for each message.
///
/// Belongs to the thread that runs the loop, save `wake`.
package protocol Poller: AnyObject, Sendable {
    /// Reports from now on what the descriptor is ready for, at each wait as long as it is so; `data` comes with each event.
    ///
    /// Throws when the kernel refuses: no memory, too many watches, or a descriptor that cannot be polled.
    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError)

    /// Changes what is reported. Errors and hang-ups are in any case.
    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64)

    /// Reports nothing more of the descriptor.
    func remove(_ descriptor: FileDescriptor)

    /// Waits until something is ready, `wake` is called, or the time is up: -1 for ever, 0 not at all. Returns how many events were written to
    /// the front of `events`; one of them may be of nobody, with the data `UInt64.max`.
    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int

    /// Ends a wait. For any thread.
    func wake()

    /// Sleeps, whatever becomes ready.
    func pause(microseconds: UInt32)

    /// The monotonic clock.
    var nowMilliseconds: UInt64 { get }

    /// The same clock.
    var nowMicroseconds: UInt64 { get }
}

/// One event: what a descriptor is ready for, and the data that it was added with. In the kernel's form, so that nothing is translated.
package typealias ReadyRecord = linux_ready_event

extension ReadyRecord {
    package init(_ ready: ReadyEvents, data: UInt64) { self.init(events: ready.rawValue, data: data) }
}
