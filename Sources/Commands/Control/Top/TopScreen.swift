internal import Administration
internal import Glibc
internal import HTTP
internal import JSON
public import Platform

/// The terminal of `martlet ctl top`: asks, draws and reads keys, until a key or a signal ends it. What it changes of
/// the terminal is put back, also after Ctrl-Z and a crash.
public struct TopScreen {
    private let look: TerminalScreen
    private let control: Control
    private let intervalMilliseconds: UInt64

    /// nil where standard input or output is no terminal.
    public init?(_ control: Control, intervalMilliseconds: UInt64) {
        guard isatty(0) == 1, let look = TerminalScreen(1) else { return nil }
        (self.look, self.control, self.intervalMilliseconds) = (look, control, intervalMilliseconds)
    }

    /// Throws only when the first question has no answer.
    public func run(_ first: TopModel) throws(ControlError) {
        var model = first
        try control.refresh(&model, rows: TerminalScreen.size(of: 1).rows, at: MonotonicClock.milliseconds())
        guard TerminalMode.enter() else { throw ControlError(.refused, "This terminal does not support full-screen output.") }
        defer { TerminalMode.leave() }
        Self.handleSignals()
        var keys = KeyReader()
        var next = MonotonicClock.milliseconds() + intervalMilliseconds
        while true {
            draw(model)
            guard let pressed = wait(until: next, &keys) else { return }
            var asks = !model.isPaused && MonotonicClock.milliseconds() >= next
            for key in pressed {
                switch model.press(key) {
                case .end: return
                case .ask: asks = true
                case .nothing: break
                }
            }
            guard asks else {
                if MonotonicClock.milliseconds() >= next { next = MonotonicClock.milliseconds() + intervalMilliseconds }
                continue
            }
            do throws(ControlError) {
                try control.refresh(&model, rows: TerminalScreen.size(of: 1).rows, at: MonotonicClock.milliseconds())
            } catch {
                model.show(error)
            }
            next = MonotonicClock.milliseconds() + intervalMilliseconds
        }
    }

    /// The keys that are pressed before that time, as soon as there are some; nil when the terminal has gone.
    private func wait(until time: UInt64, _ reader: inout KeyReader) -> [TerminalKey]? {
        var entry = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        let now = MonotonicClock.milliseconds()
        guard poll(&entry, 1, now < time ? Int32(clamping: min(time - now, Self.keyPauseMilliseconds)) : 0) > 0 else {
            return reader.take([], isPause: true)
        }
        let bytes = [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
            count = max(0, read(0, buffer.baseAddress, buffer.count))
        }
        return bytes.isEmpty ? nil : reader.take(bytes, isPause: false)
    }

    private func draw(_ model: TopModel) {
        let (columns, rows) = TerminalScreen.size(of: 1)
        var text = "\u{1b}[H"
        for (index, line) in model.lines(columns: columns, rows: rows).prefix(rows).enumerated() {
            let spans = look.isUnicode ? line : line.map { StyledText(Self.ascii($0.text), $0.look) }
            text += spans.map { look.isColored ? $0.colored : $0.text }.joined() + "\u{1b}[K" + (index < rows - 1 ? "\r\n" : "")
        }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }

    private static func ascii(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isASCII ? $0 : "?" }))
    }

    /// Everything that is called here is safe in a signal handler.
    private static func handleSignals() {
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal(number) { number in
                TerminalMode.leave()
                _exit(128 + number)
            }
        }
        signal(SIGTSTP) { _ in
            TerminalMode.leave()
            raise(SIGSTOP)
            _ = TerminalMode.enter()
        }
        signal(SIGWINCH) { _ in }
    }

    /// An escape that nothing follows for so long is the key.
    private static let keyPauseMilliseconds: UInt64 = 250
}

/// What `martlet ctl top` shows: figures of the broker, and the clients in an order that keys change. A value: lines
/// come out.
public struct TopModel {
    /// What a key asks for.
    public enum Wish: Equatable, Sendable {
        case nothing
        /// Ask the broker again now.
        case ask
        case end
    }

    /// Names of the API's orders, with the titles of their columns.
    static let orders = [
        ("dropped", "DROPPED"), ("queue_messages", "QUEUED"), ("lag_ms", "LAG"), ("received_rate", "IN"), ("sent_rate", "OUT"),
        ("subscriptions", "SUBS"), ("output_bytes", "UNWRITTEN"), ("connected_at", "CONNECTED"), ("clientid", "CLIENT"),
    ]

    private let address: String
    private var order: Int
    private var isDescending = true
    public private(set) var isPaused = false
    private var head: [String] = []
    private var rows: [[String]] = []
    private var complaint: String?
    /// Messages in and out of each client when it was seen last, and when: their difference is the rate.
    private var seen: [String: (received: Int64, sent: Int64, at: UInt64)] = [:]

    /// - `order`: one that the API knows; the first for one that it does not.
    public init(address: String, order: String) {
        self.address = address
        self.order = Self.orders.firstIndex { $0.0 == order } ?? 0
        isDescending = Self.orders[self.order].0 != "clientid"
    }

    public static var orderNames: [String] { orders.map(\.0) }

    /// As the API's query wants it.
    var sort: String { (isDescending ? "-" : "") + Self.orders[order].0 }

    public mutating func press(_ key: TerminalKey) -> Wish {
        switch key {
        case .escape, .interrupt, .character("q"), .character("Q"): return .end
        case .right, .character("s"), .character("\t"): order = (order + 1) % Self.orders.count
        case .left: order = (order + Self.orders.count - 1) % Self.orders.count
        case .character("r"): isDescending.toggle()
        case .character("p"), .character(" "):
            isPaused.toggle()
            return .nothing
        case .character("\n"): return .ask
        default: return .nothing
        }
        return .ask
    }

    /// Why there are no new figures; the last ones stay.
    public mutating func show(_ error: ControlError) { complaint = error.description }

    mutating func update(broker: JSONValue, stats: JSONValue, clients: JSONValue, at now: UInt64) {
        complaint = nil
        let figures = stats["now"]
        head = [
            "Martlet \(broker["version"].cell) on \(broker["node"].cell)"
                + (broker["cluster"]["name"].string.map { ", this node of the cluster \($0) only" } ?? "")
                + (broker["uptime_s"].integer.map { ", up \(Figures.duration(seconds: $0))" } ?? "")
                + (broker["ready"].boolean == true ? "" : ", NOT READY"),
            "Clients   \(figures["clients_connected"].cell) connected, \(Figures.counted(figures["sessions"].cell, "session")), "
                + Figures.counted(figures["subscriptions"].cell, "subscription"),
            "Messages  \(figures["received_messages_rate"].cell)/s in, \(figures["sent_messages_rate"].cell)/s out, "
                + "\(figures["dropped_rate"].cell)/s dropped, \(figures["stored_messages"].cell) kept",
            "Memory    \(bytes(figures["memory_bytes"])), store \(bytes(figures["store_bytes"])), acknowledged "
                + (figures["acknowledge_p99_ms"].number.map { "within \(Figures.decimal($0)) ms (99 of 100)" } ?? "-"),
        ]
        var next: [String: (received: Int64, sent: Int64, at: UInt64)] = [:]
        rows = clients.rows.map { client in
            let name = client["clientid"].cell
            let counts = (client["received_messages"].integer ?? 0, client["sent_messages"].integer ?? 0)
            next[name] = (counts.0, counts.1, now)
            let before = seen[name]
            func rate(_ path: (Int64, Int64?)) -> String {
                guard let then = path.1, let at = before?.at, now > at, path.0 >= then else { return "-" }
                return Figures.decimal(Double(path.0 - then) * 1000 / Double(now - at))
            }
            return [
                name, client["username"].cell, client["connected"].boolean == true ? "on" : "away",
                rate((counts.0, before?.received)), rate((counts.1, before?.sent)), client["subscriptions"].cell,
                client["queue_messages"].cell, bytes(client["output_bytes"]), client["dropped"]["total"].cell,
                client["lag_ms"].integer.map { Figures.duration(milliseconds: $0) } ?? "-",
            ]
        }
        seen = next
    }

    private func bytes(_ value: JSONValue) -> String { value.number.map { Figures.bytes(Int64($0)) } ?? "-" }

    /// At most `rows` lines, none longer than `columns`.
    public func lines(columns: Int?, rows count: Int?) -> [[StyledText]] {
        var lines = head.isEmpty ? [[StyledText(address, .strong)]] : [[StyledText(TerminalText.line(head[0]), .strong)]]
        lines += head.dropFirst().map { [StyledText(TerminalText.line($0))] }
        lines.append([StyledText("")])
        let names = [
            "clientid", "username", "connected", "received_rate", "sent_rate", "subscriptions", "queue_messages", "output_bytes",
            "dropped", "lag_ms",
        ]
        var table = TextTable(names.map { ResourceDescription.client.column($0).column })
        table.rows = count.map { Array(rows.prefix(max(0, $0 - lines.count - 2))) } ?? rows
        let text = table.lines(width: columns)
        lines += text.prefix(1).map { [StyledText($0, .strong)] } + text.dropFirst().map { [StyledText($0)] }
        guard let columns, let count else { return lines }
        while lines.count < count - 1 { lines.append([]) }
        lines = Array(lines.prefix(count - 1)) + [foot]
        return lines.map { StyledText.cut($0, to: columns) }
    }

    private var foot: [StyledText] {
        if let complaint { return [StyledText(complaint, .mark)] }
        let direction = isDescending ? "most first" : "least first"
        let state = isPaused ? "  paused" : ""
        return [
            StyledText("by \(Self.orders[order].1) \(direction)\(state)", .strong),
            StyledText("  s/← → order  r reverse  p pause  q quit", .faint),
        ]
    }
}

extension Control {
    /// Asks for what the picture shows.
    ///
    /// - `now`: milliseconds of the monotonic clock.
    public func refresh(_ model: inout TopModel, rows: Int, at now: UInt64) throws(ControlError) {
        let broker = try value(try ask(ControlRequest(["broker"])))
        let stats = try value(try ask(ControlRequest(["stats"])))
        let query: [(String, String?)] = [("sort", model.sort), ("limit", String(min(max(rows, 1), Limits.pageRowsMax)))]
        let clients = try value(try ask(ControlRequest(.get, ["clients"], query: query)))
        model.update(broker: broker, stats: stats, clients: clients, at: now)
    }

    /// `ctl top` where nobody watches: one picture, rates and all, as text.
    public func printTop(_ model: TopModel) {
        for line in model.lines(columns: output.width, rows: nil) { output.say(line.map(\.text).joined()) }
    }
}
