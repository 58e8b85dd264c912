internal import Glibc
internal import MartletClient
internal import Platform

/// Standard output and standard error of a client command. Any thread may write; writes are whole.
struct CommandConsole: Sendable {
    private let isQuiet: Bool
    private let isDebugging: Bool
    private let name: String
    private let lock = Locked(())
    /// Whether a terminal shows standard output, and standard error. What others have written does nothing to it; into
    /// a pipe and a file bytes go as they are.
    let isShown = isatty(1) == 1
    private let areErrorsShown = isatty(2) == 1

    init(_ arguments: ClientArguments) {
        (isQuiet, isDebugging) = (arguments.printing.isQuiet, arguments.printing.isDebugging)
        name = arguments.login.identifier.map { "\($0)" } ?? "(null)"
    }

    /// Writes all bytes to standard output. Returns why the command cannot go on when they cannot be written; of a
    /// reader that has gone nothing is said.
    ///
    /// - Parameter finish: what belongs to the bytes once they are written; a reader that leaves then is noticed after
    ///   it.
    func write(_ bytes: [UInt8], _ finish: () -> Void = {}) -> Ending.Reason? {
        lock.withLock { _ in
            if Self.write(bytes, to: 1) {
                finish()
                return nil
            }
            let error = SystemError(errno: errno, operation: "write")
            if error.errno == EPIPE { return .code(ClientExitCode.failure) }
            return .complaint("Error: Standard output: \(error.reason).", code: ClientExitCode.failure)
        }
    }

    /// Ends the command when who reads standard output has gone, as `head` does: nothing need be written for it. Of a
    /// file and a terminal there is nothing to watch.
    func watchReader(_ ending: Ending) {
        var status = stat()
        guard fstat(1, &status) == 0, [S_IFIFO, S_IFSOCK].contains(status.st_mode & S_IFMT) else { return }
        // Where the system allows no further thread the next write says it.
        _ = try? NamedThread.start(name: "reader") {
            // Asked for nothing, poll tells of POLLERR and POLLHUP alone.
            var entry = pollfd(fd: 1, events: 0, revents: 0)
            while poll(&entry, 1, -1) < 0, errno == EINTR {}
            lock.withLock { _ in _ = ending.end(.code(ClientExitCode.failure)) }
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

    /// Writes a line for `-d` that names no client.
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

/// With what the client commands end; where mosquitto's have a number for it, it is theirs.
enum ClientExitCode {
    static let success: Int32 = 0
    /// The arguments are wrong, a file cannot be read, nothing can be reached.
    static let failure: Int32 = 1
    /// Nothing came in the time of -W.
    static let timeout: Int32 = 27

    /// What the user is told of an error, and the exit code: of a refusal the reason code of MQTT 5.0, or the return
    /// code of 3.1.1.
    static func of(_ error: ClientError, _ version: ProtocolVersion) -> (words: String, code: Int32) {
        switch error {
        case .refused(let reason, let words, _):
            if version != .v5, let (code, text) = returnCode(reason) {
                return ("Connection error: Connection Refused: \(text).", code)
            }
            // A broker's reason may be a sentence, which goes on here.
            let detail = words.map { " (\($0.hasSuffix(".") && !$0.hasSuffix("..") ? String($0.dropLast()) : $0))" } ?? ""
            return ("Connection error: \(sentence(reason))\(detail)", Int32(reason.rawValue))
        case .timedOut: return ("Error: The server does not answer.", failure)
        default:
            return ("Error: \(sentence("\(error)"))", failure)
        }
    }

    /// The reason with a capital.
    static func sentence(_ reason: ReasonCode) -> String { sentence("\(reason)") }

    /// Names of hosts and files stay as they are.
    private static func sentence(_ text: String) -> String {
        guard text.prefix(while: { $0 != " " }).allSatisfy(\.isLetter) else { return text }
        return text.prefix(1).uppercased() + text.dropFirst()
    }

    /// CONNACK's return code before MQTT 5.0, in mosquitto's words.
    private static func returnCode(_ reason: ReasonCode) -> (Int32, String)? {
        switch reason {
        case .unsupportedProtocolVersion: (1, "unacceptable protocol version")
        case .clientIdentifierNotValid: (2, "identifier rejected")
        case .serverUnavailable: (3, "broker unavailable")
        case .badUserNameOrPassword: (4, "bad user name or password")
        case .notAuthorized: (5, "not authorised")
        default: nil
        }
    }
}

/// A client command as the process that it is: its main thread waits for signals, the work goes on in tasks.
///
/// ```
/// main thread:  block signals ─► sigwait ─► end(.signal) ─► sigwait … the second one ends the process at once
/// task:         run ────────────────────► goodbye ─► exit
/// ```
public enum CommandProcess {
    /// Runs the command and ends the process with its exit code.
    public static func run(_ arguments: ClientArguments) -> Never {
        // A reader of our output that has gone, or a program that reads no request, is an error of write.
        signal(SIGPIPE, SIG_IGN)
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in endingSignals + screenSignals { sigaddset(&signals, number) }
        // Threads that are started from here on inherit it: a signal comes to this thread alone.
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let ending = Ending()
        let screen = arguments.command == .mirror ? MirrorScreen(arguments) : nil
        Task.detached {
            let code = await CommandRun(arguments, ending, screen).run()
            screen?.leave()
            exit(code)
        }
        while true {
            var number: Int32 = 0
            guard sigwait(&signals, &number) == 0 else { continue }
            if screenSignals.contains(number) {
                screen?.handle(number)
                continue
            }
            if !ending.end(.signal(number)) {
                screen?.leave()
                die(of: number)
            }
        }
    }

    /// What the process does of that signal without us.
    static func die(of number: Int32) -> Never {
        signal(number, SIG_DFL)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        raise(number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        exit(128 + number)
    }

    static let endingSignals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
    static let screenSignals = [SIGWINCH, SIGTSTP, SIGCONT]
}

/// Why a command ends: the first reason counts. Any thread may tell one.
final class Ending: Sendable {
    enum Reason: Sendable {
        /// All is done.
        case done
        /// The exit code, which says it all.
        case code(Int32)
        case signal(Int32)
        case timeout
        case failed(ClientError)
        /// With the words for the user.
        case complaint(String, code: Int32)
    }

    private struct State {
        var reason: Reason?
        var waiter: UnsafeContinuation<Reason, Never>?
    }

    private let state = Locked(State())

    /// Returns whether it is the first reason.
    @discardableResult
    func end(_ reason: Reason) -> Bool {
        let (isFirst, waiter) = state.withLock { state in
            guard state.reason == nil else { return (false, nil as UnsafeContinuation<Reason, Never>?) }
            state.reason = reason
            return (true, state.waiter.take())
        }
        waiter?.resume(returning: reason)
        return isFirst
    }

    var hasEnded: Bool { state.withLock { $0.reason != nil } }

    /// Waits for the first reason. One task at a time.
    func wait() async -> Reason {
        await withUnsafeContinuation { continuation in
            let reason = state.withLock { state -> Reason? in
                if state.reason == nil { state.waiter = continuation }
                return state.reason
            }
            if let reason { continuation.resume(returning: reason) }
        }
    }

    /// The work is over and keeps what it has until the process ends: letting a subscription go would end it at the
    /// server.
    func never() async -> Never {
        while true { await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
    }
}
