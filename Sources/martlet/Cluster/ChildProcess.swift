import Glibc
import Platform

/// A program that this one has started, in a process group of its own: a terminal's Ctrl-C does not reach it.
struct ChildProcess {
    let identifier: pid_t

    /// Starts it without input; what it prints is put at the end of the log.
    static func start(_ words: [String], log: String) throws(SystemError) -> ChildProcess {
        ChildProcess(
            identifier: try spawn(words) { actions in
                posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_APPEND | O_CREAT, 0o640)
                posix_spawn_file_actions_adddup2(&actions, 1, 2)
            })
    }

    /// Signals it and what it has started itself.
    func signal(_ number: Int32) { _ = kill(-identifier, number) }

    /// What a program prints until it ends.
    static func output(of words: [String]) throws(SystemError) -> String {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw SystemError(errno: errno, operation: "pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (reading, writing) = (ends[0], ends[1])
        defer { close(reading) }
        let identifier: pid_t
        do throws(SystemError) {
            identifier = try spawn(words) { actions in
                posix_spawn_file_actions_adddup2(&actions, writing, 1)
                posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
            }
        } catch {
            close(writing)
            throw error
        }
        close(writing)
        var bytes: [UInt8] = []
        while true {
            let chunk = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
                count = max(0, read(reading, buffer.baseAddress, buffer.count))
            }
            if chunk.isEmpty { break }
            // Nobody's version is longer; it is read on, so that the program can end.
            if bytes.count < 4096 { bytes += chunk }
        }
        while waitpid(identifier, nil, 0) < 0, errno == EINTR {}
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A child that has ended since it was asked last, and its status; nil if there is none.
    static func ended() -> (identifier: pid_t, status: Int32)? {
        var status: Int32 = 0
        let identifier = waitpid(-1, &status, WNOHANG)
        return identifier > 0 ? (identifier, status) : nil
    }

    /// How a status says that it ended.
    static func words(for status: Int32) -> String {
        let number = status & 0x7F
        return number == 0 ? "ended with exit code \(status >> 8 & 0xFF)" : "was ended by signal \(number)"
    }

    private static func spawn(
        _ words: [String], _ prepare: (inout posix_spawn_file_actions_t) -> Void
    ) throws(SystemError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        prepare(&actions)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process waits for its signals; its children do not.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        var pointers = words.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        var identifier: pid_t = 0
        let number = posix_spawn(&identifier, words[0], &actions, &attributes, pointers, environ)
        guard number == 0 else { throw SystemError(errno: number, operation: "posix_spawn") }
        return identifier
    }
}
