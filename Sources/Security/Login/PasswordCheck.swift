internal import Synchronization

/// A password that waits to be checked, or is being checked.
public final class PasswordCheck: Sendable {
    let subject: LoginSubject
    private let work: @Sendable () -> Void
    private let refuse: @Sendable () -> Void
    private let isAbandoned = Atomic<Bool>(false)

    /// - Parameters:
    ///   - subject: whose password it is.
    ///   - work: checks and answers.
    ///   - refuse: answers when the check has to give way to others. One of the two is called, on any thread, unless the check is abandoned.
    public init(of subject: LoginSubject, work: @escaping @Sendable () -> Void, refuse: @escaping @Sendable () -> Void) {
        self.subject = subject
        self.work = work
        self.refuse = refuse
    }

    /// Nobody waits for the answer any more; what has not begun never will. For any thread.
    public func abandon() { isAbandoned.store(true, ordering: .relaxed) }

    var isWanted: Bool { !isAbandoned.load(ordering: .relaxed) }

    func run() { work() }

    func giveWay() { refuse() }
}
