internal import Glibc

/// How the calling thread stands to others when all cores are busy.
enum ThreadPriority {
    /// Lets every thread of ordinary priority go first, from now on.
    static func lower() {
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
    }

    private static let niceness: Int32 = 10
}
