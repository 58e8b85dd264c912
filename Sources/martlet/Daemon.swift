import ArgumentParser
import Glibc

/// Going on in the background, with no terminal.
enum Daemon {
    /// Forks; the parent exits with 0. Call before any thread is started.
    static func detach() throws {
        // `fork` is not offered to Swift, because it is unsafe once threads run. None runs yet; `daemon` forks for us.
        guard daemon(1, 0) == 0 else {
            Console.complain("Error: Unable to go on in the background: \(String(cString: strerror(errno))).")
            throw ExitCode(1)
        }
    }
}
