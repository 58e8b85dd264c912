internal import Glibc
internal import Platform

/// Standard output and standard error of a client command. Any thread may write; writes are whole.
struct CommandConsole: Sendable {
    private let isQuiet: Bool
    private let isDebugging: Bool
    private let name: String
    private let lock = Locked(())
    /// Whether a terminal shows standard output, and standard error. What others have written does nothing to it; into a pipe and a file bytes
    /// go as they are.
    let isShown = isatty(1) == 1
    private let areErrorsShown = isatty(2) == 1

    init(_ arguments: ClientArguments) {
        (isQuiet, isDebugging) = (arguments.isQuiet, arguments.isDebugging)
        name = arguments.identifier.map { "\($0)" } ?? "(null)"
    }

    /// Writes all bytes to standard output. Returns why the command cannot go on when they cannot be written; of a reader that has gone nothing
    /// is said.
    ///
    /// - Parameter finish: what belongs to the bytes once they are written; a reader that leaves then is noticed after it.
    func write(_ bytes: [UInt8], _ finish: () -> Void = {}) -> Ending.Reason? {
        lock.withLock { _ in
            if Self.write(bytes, to: 1) {
                finish()
                return nil
            }
            let error = SystemError(errno: errno, operation: "write")
            if error.errno == EPIPE { return .code(ExitCode.failure) }
            return .complaint("Error: Standard output: \(error.reason).", code: ExitCode.failure)
        }
    }

    /// Ends the command when who reads standard output has gone, as `head` does: nothing need be written for it. Of a file and a terminal
    /// there is nothing to watch.
    func watchReader(_ ending: Ending) {
        var status = stat()
        guard fstat(1, &status) == 0, [S_IFIFO, S_IFSOCK].contains(status.st_mode & S_IFMT) else { return }
        // Where the system allows no further thread the next write says it.
        _ = try? NamedThread.start(name: "reader") {
            // Asked for nothing, poll tells of POLLERR and POLLHUP alone.
            var entry = pollfd(fd: 1, events: 0, revents: 0)
            while poll(&entry, 1, -1) < 0, errno == EINTR {}
            lock.withLock { _ in _ = ending.end(.code(ExitCode.failure)) }
        }
    }

    /// A line on standard error, and what else there is to say on one of its own, unless --quiet.
    func complain(_ line: String, _ detail: String? = nil) {
        if isQuiet { return }
        let lines = [line, detail].compactMap { $0 }.flatMap { Self.bytes($0, isShown: areErrorsShown) }
        lock.withLock { _ in _ = Self.write(lines, to: 2) }
    }

    /// A line for -d on standard output, as mosquitto's clients have it.
    func debug(_ line: @autoclosure () -> String) {
        if isDebugging { _ = write(Self.bytes("Client \(name) \(line())", isShown: isShown)) }
    }

    /// The same without the client.
    func debugPlain(_ line: @autoclosure () -> String) {
        if isDebugging, !isQuiet { _ = write(Self.bytes(line(), isShown: isShown)) }
    }

    private static func bytes(_ line: String, isShown: Bool) -> [UInt8] {
        (isShown ? TerminalText.line(Array(line.utf8)) : Array(line.utf8)) + [UInt8(ascii: "\n")]
    }

    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes
            while let base = rest.baseAddress, !rest.isEmpty {
                let count = Glibc.write(descriptor, base, rest.count)
                if count < 0 {
                    if errno == EINTR { continue }
                    guard errno == EAGAIN else { return false }
                    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&entry, 1, -1)
                    continue
                }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return true
        }
    }
}
