internal import Glibc
internal import Platform

/// A program that answers a request: the payload is its standard input, the answer its standard output.
struct AnswerProgram: Sendable {
    struct Result: Sendable {
        var output: [UInt8]
        /// Why the answer is none, as the end of a sentence.
        var failure: String?
    }

    private let words: [String]

    init(_ words: [String]) { self.words = words }

    /// Runs it to its end, on a thread of its own.
    ///
    /// - Parameter environment: variables beside those of this process.
    func run(_ input: [UInt8], environment: [String: String]) async -> Result {
        await withUnsafeContinuation { continuation in
            do throws(SystemError) {
                _ = try NamedThread.start(name: "answer") { continuation.resume(returning: runHere(input, environment)) }
            } catch {
                continuation.resume(returning: Result(output: [], failure: "\(error)"))
            }
        }
    }

    private func runHere(_ input: [UInt8], _ environment: [String: String]) -> Result {
        let child: Swift.Result<Child, SystemError> = Self.starting.withLock { _ in start(environment) }
        let started: Child
        switch child {
        case .success(let child): started = child
        case .failure(let error): return Result(output: [], failure: error.reason)
        }
        var writing = started.input
        defer { for descriptor in [writing, started.output] where descriptor >= 0 { close(descriptor) } }
        let output = exchange(input, into: &writing, from: started.output)
        var status: Int32 = 0
        while waitpid(started.process, &status, 0) < 0, errno == EINTR {}
        return Result(output: output ?? [], failure: Self.failure(status) ?? (output == nil ? "its answer is too long" : nil))
    }

    /// A program that runs, and our ends of its pipes.
    private struct Child {
        let process: pid_t
        let input: Int32
        let output: Int32
    }

    /// One at a time: a pipe's ends must not pass to another's program before they are marked.
    private static let starting = Locked(())

    private func start(_ environment: [String: String]) -> Swift.Result<Child, SystemError> {
        var ends: [Int32] = [-1, -1, -1, -1]
        let isMade = ends.withUnsafeMutableBufferPointer { ends in
            guard let first = ends.baseAddress else { return false }
            return pipe(first) == 0 && pipe(first + 2) == 0
        }
        guard isMade else {
            let error = SystemError(errno: errno, operation: "pipe")
            for end in ends where end >= 0 { close(end) }
            return .failure(error)
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let result = spawn(ends[0], ends[3], environment)
        close(ends[0])
        close(ends[3])
        switch result {
        case .success(let process): return .success(Child(process: process, input: ends[1], output: ends[2]))
        case .failure(let error):
            close(ends[1])
            close(ends[2])
            return .failure(error)
        }
    }

    private func spawn(
        _ input: Int32, _ output: Int32, _ environment: [String: String]
    ) -> Swift.Result<pid_t, SystemError> {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This process waits for its signals and ignores SIGPIPE; its programs do neither.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var process: pid_t = 0
        let number = Self.withStrings(words) { words in
            Self.withStrings(Self.environment(with: environment)) { variables in
                guard let path = words[0] else { return EINVAL }
                return posix_spawnp(&process, path, &actions, &attributes, words, variables)
            }
        }
        return number == 0 ? .success(process) : .failure(SystemError(errno: number, operation: "posix_spawnp"))
    }

    /// Writes and reads at a time: a program may answer while it reads. nil if the answer is longer than a message may
    /// be.
    private func exchange(_ input: [UInt8], into writing: inout Int32, from reading: Int32) -> [UInt8]? {
        _ = fcntl(writing, F_SETFL, O_NONBLOCK)
        // The thread is this program's alone: one that reads no more is an error of `write`, and not the end of the
        // process.
        var brokenPipe = sigset_t()
        sigemptyset(&brokenPipe)
        sigaddset(&brokenPipe, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &brokenPipe, nil)
        var rest = input[...]
        var output: [UInt8] = []
        var isTooLong = false
        while true {
            if rest.isEmpty, writing >= 0 {
                close(writing)
                writing = -1
            }
            var entries = [
                pollfd(fd: reading, events: Int16(POLLIN), revents: 0), pollfd(fd: writing, events: Int16(POLLOUT), revents: 0),
            ]
            guard poll(&entries, 2, -1) >= 0 || errno == EINTR else { break }
            if entries[1].revents != 0 {
                let count = rest.withUnsafeBytes { write(writing, $0.baseAddress, $0.count) }
                // Who reads no more may still answer.
                if count > 0 { rest = rest.dropFirst(count) } else if errno != EAGAIN, errno != EINTR { rest = [] }
            }
            guard entries[0].revents != 0 else { continue }
            let chunk = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
                count = max(0, read(reading, buffer.baseAddress, buffer.count))
            }
            if chunk.isEmpty { break }
            if output.count + chunk.count > Limits.payloadBytesMax { isTooLong = true } else { output += chunk }
        }
        return isTooLong ? nil : output
    }

    private static func failure(_ status: Int32) -> String? {
        let signal = status & 0x7F
        if signal != 0 { return "it was ended by signal \(signal)" }
        let code = status >> 8 & 0xFF
        return code == 0 ? nil : "it ended with exit code \(code)"
    }

    private static func environment(with others: [String: String]) -> [String] {
        var variables: [String] = []
        var next = environ
        while let variable = next.pointee {
            variables.append(String(cString: variable))
            next += 1
        }
        return variables + others.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    }

    /// Lends the strings as C's list of them.
    private static func withStrings<Answer>(
        _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Answer
    ) -> Answer {
        var pointers = strings.map { strdup($0) }
        pointers.append(nil)
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { preconditionFailure("the list has its end") }
            return body(base)
        }
    }
}
