import Glibc
import MartletServer

/// Going on in the background, with no terminal.
enum Daemon {
    /// Forks; the parent exits with 0. Call before any thread is started: only the calling one lives on in the child.
    static func detach() throws(ServerError) {
        // `fork` is not offered to Swift, because it is unsafe once threads run. None runs yet; `daemon` forks for us.
        guard daemon(1, 0) == 0 else { throw .daemon(errno: errno) }
    }
}
