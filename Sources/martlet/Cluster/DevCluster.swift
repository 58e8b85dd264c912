import Glibc
import Platform
import Security

/// A cluster on trial while it runs: starts its members, tells what becomes of them, and ends them.
///
/// ```
///   start ──► until every node knows the others ──► the table ──► until it is told to end ──► nodes end ──► servers end
///                        └── one ends by itself: all end, and why is told
/// ```
struct DevCluster {
    private struct Member {
        let name: String
        let isNode: Bool
        let words: [String]
        /// nil before it starts, and when it has ended.
        var child: ChildProcess?
    }

    private let plan: DevPlan
    private let serverVersion: String
    private let isKept: Bool
    private let password: String
    private var members: [Member] = []
    private var signals = sigset_t()

    /// Writes the configurations.
    init(_ plan: DevPlan, server: NATSServerProgram, isKept: Bool) throws(DevFailure) {
        (self.plan, serverVersion, self.isKept) = (plan, server.version, isKept)
        password = String(RandomBytes.seed(), radix: 36)
        guard let path = realpath("/proc/self/exe", nil) else { throw DevFailure("/proc/self/exe does not say where martlet is.") }
        defer { free(path) }
        let martlet = String(cString: path)
        let user = geteuid() == 0 ? "root" : nil
        try writeUsers()
        for (index, name) in plan.serverNames.enumerated() {
            let file = plan.path(name, ".conf")
            try Self.write(plan.serverConfiguration(index), to: file)
            members.append(Member(name: name, isNode: false, words: [server.path, "-c", file]))
        }
        for (index, name) in plan.nodeNames.enumerated() {
            let file = plan.path(name, ".conf")
            try Self.write(plan.nodeConfiguration(index, user: user), to: file)
            guard mkdir(plan.path(name, ""), 0o700) == 0 || errno == EEXIST else {
                throw DevFailure("\(plan.path(name, "")): \(SystemError(errno: errno, operation: "mkdir").reason).")
            }
            members.append(Member(name: name, isNode: true, words: [martlet, "-c", file]))
        }
    }

    /// Runs it until a signal ends it. Throws why it did not come about, or that nothing of it is left.
    mutating func run() throws(DevFailure) {
        signal(SIGPIPE, SIG_IGN)
        sigemptyset(&signals)
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD] { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        defer { end() }
        try start()
        guard try becomesWhole() else { return }
        tell()
        while true {
            switch wait(milliseconds: Self.longMilliseconds) {
            case .isToldToEnd: return
            case .nothing: continue
            case .ended(let ended):
                for (member, child, status) in ended {
                    let words = member.words.map(Self.quoted).joined(separator: " ")
                    Console.say(
                        "\(member.name) (pid \(child.identifier)) \(ChildProcess.words(for: status)). To start it again, in another "
                            + "terminal, and to end it there: \(words)")
                }
                guard members.contains(where: { $0.child != nil }) else {
                    throw DevFailure("all members of the cluster have ended.")
                }
            }
        }
    }

    // MARK: The start

    private mutating func start() throws(DevFailure) {
        Console.say(
            "Starting \(plan.serverNames.count) NATS servers (\(serverVersion)) and \(plan.nodeNames.count) \(plan.nodeNames.count == 1 ? "node" : "nodes") in \(plan.directory)."
        )
        for index in members.indices {
            do throws(SystemError) {
                members[index].child = try ChildProcess.start(members[index].words, log: plan.path(members[index].name, ".log"))
            } catch {
                throw DevFailure("\(members[index].name) cannot be started: \(error).")
            }
        }
    }

    /// Waits until each node carries messages with all others; false if it is told to end before. Throws when that is out of reach.
    private mutating func becomesWhole() throws(DevFailure) -> Bool {
        let deadline = MonotonicClock.milliseconds() + Self.patienceMilliseconds
        let others = plan.nodeNames.count - 1
        while true {
            let missing = plan.ports.http.indices.filter {
                DevNodeProbe.otherNodes(httpPort: plan.ports.http[$0]).map { $0 < others } ?? true
            }
            if missing.isEmpty { return true }
            switch wait(milliseconds: Self.pauseMilliseconds) {
            case .isToldToEnd: return false
            case .nothing: break
            case .ended(let members):
                let ended = members.map { "\($0.member.name) \(ChildProcess.words(for: $0.status))" }.joined(separator: ", ")
                throw DevFailure("\(ended) at the start. \(members.first.map { lastLines(of: $0.member.name) } ?? "")")
            }
            guard MonotonicClock.milliseconds() < deadline else {
                let names = missing.map { plan.nodeNames[$0] }
                throw DevFailure(
                    "after \(Self.patienceMilliseconds / 1000) s the cluster is not complete: \(names.joined(separator: ", ")). "
                        + "\(lastLines(of: names[0]))")
            }
        }
    }

    private func tell() {
        var identifiers: [String: Int32] = [:]
        for member in members { identifiers[member.name] = member.child?.identifier }
        let node = plan.ports.mqtt
        Console.say(
            """

            \(plan.table(identifiers))

            Try:    martlet sub -p \(node[node.count - 1]) -t 'house/#' -v
                    martlet pub -p \(node[0]) -t house/lamp -m on
                    martlet ctl status --socket \(plan.path(plan.nodeNames[0], ".sock"))
                    kill -9 PID, of any of them, and see what happens
            Pages:  log in to the dashboards as \(DevPlan.user) with the password \(password)
            Ctrl-C ends all of them\(isKept ? "; \(plan.directory) stays." : " and removes \(plan.directory); --keep would leave it.")
            """)
    }

    // MARK: The end

    /// The nodes first: while servers are there they can say goodbye.
    private mutating func end() {
        for areNodes in [true, false] {
            let deadline = MonotonicClock.milliseconds() + Self.goodbyeMilliseconds
            for member in members where member.isNode == areNodes { member.child?.signal(SIGTERM) }
            while members.contains(where: { $0.isNode == areNodes && $0.child != nil }) {
                let left = deadline - min(deadline, MonotonicClock.milliseconds())
                let isImpatient = wait(milliseconds: max(100, Int(left))).isToldToEnd
                if isImpatient || left == 0 { for member in members { member.child?.signal(SIGKILL) } }
            }
        }
    }

    // MARK: Waiting

    private enum Event {
        case isToldToEnd
        case ended([(member: Member, child: ChildProcess, status: Int32)])
        case nothing

        var isToldToEnd: Bool { if case .isToldToEnd = self { true } else { false } }
    }

    /// Waits for a signal.
    private mutating func wait(milliseconds: Int) -> Event {
        var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        let number = sigtimedwait(&signals, nil, &time)
        guard number == SIGCHLD || number < 0 else { return .isToldToEnd }
        var ended: [(member: Member, child: ChildProcess, status: Int32)] = []
        while let (identifier, status) = ChildProcess.ended() {
            guard let index = members.firstIndex(where: { $0.child?.identifier == identifier }), let child = members[index].child
            else { continue }
            // What it may have started itself.
            child.signal(SIGKILL)
            ended.append((members[index], child, status))
            members[index].child = nil
        }
        return ended.isEmpty ? .nothing : .ended(ended)
    }

    // MARK: Files

    private func writeUsers() throws(DevFailure) {
        guard let entry = try? PasswordScheme.sha512PBKDF2.entry(for: Array(password.utf8)) else {
            throw DevFailure("there is no memory for the hash of a password.")
        }
        try Self.write("\(DevPlan.user):\(entry)\n", to: plan.userFile)
    }

    private static func write(_ text: String, to path: String) throws(DevFailure) {
        do throws(SystemError) {
            let file = try WrittenFile.openEmptied(path, mode: 0o600)
            Console.put(text, to: file.rawValue)
            file.close()
        } catch {
            throw DevFailure("\(path): \(error.reason).")
        }
    }

    private func lastLines(of name: String) -> String {
        let path = plan.path(name, ".log")
        let bytes = (try? WholeFile.bytes(of: path, bytesMax: 16 << 20)) ?? []
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").suffix(8)
        return "The end of \(path):\n\(lines.map { "  \($0)" }.joined(separator: "\n"))"
    }

    private static func quoted(_ word: String) -> String {
        let isPlain = word.allSatisfy { $0.isLetter || $0.isNumber || "/._-+".contains($0) }
        return isPlain ? word : "'\(word.replacing(every: "'", by: "'\\''"))'"
    }

    private static let longMilliseconds = 3_600_000
    private static let pauseMilliseconds = 100
    private static let patienceMilliseconds: UInt64 = 60_000
    private static let goodbyeMilliseconds: UInt64 = 10_000
}
