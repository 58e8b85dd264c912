internal import Glibc
internal import MartletClient
public import Platform

/// The terminal of `martlet mirror`: draws the model some times a second on the alternate screen, and hands it keys.
///
/// What it changes of the terminal is put back when it leaves, whoever calls: the end of the command, a signal, Ctrl-Z,
/// or a crash.
final class MirrorScreen: Sendable {
    private struct State {
        var model: MirrorModel
        var isEntered = false
        var isSuspended = false
    }

    private let state: Locked<State>
    private let look: TerminalScreen
    private let thread = Locked<NamedThread?>(nil)

    /// nil where standard output or standard input is no terminal, or lines are wanted.
    init?(_ arguments: ClientArguments) {
        guard arguments.printing.output == .payload, !arguments.printing.isDebugging, isatty(0) == 1, let look = TerminalScreen(1)
        else { return nil }
        self.look = look
        let filters = arguments.subscribing.filters.map { "\($0)" }.joined(separator: " ")
        state = Locked(State(model: MirrorModel(title: "\(filters) on \(arguments.connection.serverText)")))
    }

    /// Whether the tree is shown.
    var isShown: Bool { state.withLock(\.isEntered) }

    /// Takes the terminal. `ending` hears when a key ends it.
    func enter(endingWith ending: Ending) {
        guard !ending.hasEnded else { return }
        state.withLock { state in
            guard TerminalMode.enter() else { return }
            state.isEntered = true
        }
        guard isShown else { return }
        draw()
        thread.replace(with: try? NamedThread.start(name: "screen") { [self] in watchKeys(ending) })
    }

    /// Gives the terminal back. A second call does nothing.
    func leave() {
        state.withLock { state in
            guard state.isEntered else { return }
            state.isEntered = false
            TerminalMode.leave()
        }
    }

    /// SIGWINCH, SIGTSTP or SIGCONT came.
    func handle(_ number: Int32) {
        switch number {
        case SIGTSTP:
            state.withLock { state in
                if state.isEntered { TerminalMode.leave() }
                state.isSuspended = state.isEntered
            }
            raise(SIGSTOP)
            resume()
        case SIGCONT: resume()
        default: draw()
        }
    }

    private func resume() {
        state.withLock { state in
            if state.isSuspended, state.isEntered { _ = TerminalMode.enter() }
            state.isSuspended = false
        }
        draw()
    }

    func received(_ message: ReceivedMessage) {
        let payload = Array(message.payload.prefix(Limits.mirroredPayloadBytesMax))
        let arrival = TopicTree.Arrival(
            topic: message.topic, payload: payload, qos: message.qos.rawValue, isRetained: message.retain)
        let now = MonotonicClock.milliseconds()
        state.withLock { $0.model.add(arrival, at: now) }
    }

    func show(_ connection: ConnectionState) {
        let status: String =
            switch connection {
            case .online: ""
            case .connecting: "connecting"
            case .waiting(_, let error): "no connection: \(error)"
            case .offline, .refused, .ended: "no connection"
            }
        state.withLock { $0.model.status = PayloadText.line(Array(status.utf8), columns: 200).replacingEmpty(status) }
    }

    // MARK: The thread that reads keys

    private func watchKeys(_ ending: Ending) {
        var reader = KeyReader()
        var pause = Self.framePauseMilliseconds
        while isShown, !ending.hasEnded {
            var entry = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
            let isPressed = poll(&entry, 1, Int32(pause)) > 0
            var keys: [TerminalKey] = []
            if isPressed {
                let bytes = [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
                    count = max(0, read(0, buffer.baseAddress, buffer.count))
                }
                // The terminal has gone.
                if bytes.isEmpty, entry.revents & Int16(POLLIN) == 0 || entry.revents & Int16(POLLHUP) != 0 {
                    ending.end(.signal(SIGHUP))
                    return
                }
                keys = reader.take(bytes, isPause: false)
            } else {
                keys = reader.take([], isPause: true)
            }
            let rows = TerminalScreen.size(of: 1).rows
            for key in keys where state.withLock({ $0.model.press(key, rows: rows) }) == .end {
                ending.end(.done)
                return
            }
            let start = MonotonicClock.milliseconds()
            draw()
            // A large tree takes its time; no more than a third of it goes into drawing.
            pause = max(Self.framePauseMilliseconds, 2 * Int(MonotonicClock.milliseconds() - start))
        }
    }

    private func draw() {
        let (columns, rows) = TerminalScreen.size(of: 1)
        let now = MonotonicClock.milliseconds()
        state.withLock { state in
            guard state.isEntered, !state.isSuspended else { return }
            let lines = state.model.lines(columns: columns, rows: rows, at: now, isUnicode: look.isUnicode)
            var text = "\u{1b}[H"
            for (index, line) in lines.prefix(rows).enumerated() {
                text += line.map { look.isColored ? $0.colored : $0.text }.joined() + "\u{1b}[K"
                if index < min(rows, lines.count) - 1 { text += "\r\n" }
            }
            _ = CommandConsole.write(Array(text.utf8), to: 1)
        }
    }

    private static let framePauseMilliseconds = 100
}

extension String {
    fileprivate func replacingEmpty(_ original: String) -> String { original.isEmpty ? "" : self }
}

/// What `martlet mirror` shows: the tree, what part of it, and what its keys did. A value: lines come out, whatever
/// draws them.
public struct MirrorModel {
    public private(set) var tree = TopicTree()
    /// The line below the tree: how the connection stands.
    public var status = ""
    /// What the first line says: filters and broker.
    public var title = ""
    /// How many lines are above the first that is shown.
    private var offset = 0
    private var filter = ""
    /// The filter while it is typed.
    private var typed: String?
    private var isPaused = false
    private var frozen: [[StyledText]]?

    public init(title: String = "") { self.title = title }

    /// What a key wants from whoever shows the model.
    public enum Wish: Equatable, Sendable { case nothing, end }

    public mutating func add(_ arrival: TopicTree.Arrival, at now: UInt64) { tree.add(arrival, at: now) }
}

// MARK: - Keys

extension MirrorModel {
    /// Takes a key.
    ///
    /// - `rows`: of the terminal.
    public mutating func press(_ key: TerminalKey, rows: Int) -> Wish {
        if var text = typed {
            switch key {
            case .character("\r"), .character("\n"): (filter, typed, offset) = (text, nil, 0)
            case .escape: typed = nil
            case .backspace:
                if text.isEmpty { typed = nil } else { text.removeLast(); typed = text }
            case .interrupt: return .end
            case .character(let character): typed = text + String(character)
            case .up, .down, .pageUp, .pageDown, .home, .end, .left, .right: break
            }
            return .nothing
        }
        let page = max(1, rows - Self.headAndFootRows)
        switch key {
        case .up, .character("k"): offset -= 1
        case .down, .character("j"): offset += 1
        case .pageUp, .character("b"): offset -= page
        case .pageDown, .character(" "): offset += page
        case .home, .character("g"): offset = 0
        case .end, .character("G"): offset = .max / 2
        case .character("/"): typed = filter
        case .character("p"): isPaused.toggle(); frozen = nil
        case .escape: (filter, offset) = ("", 0)
        case .interrupt, .character("q"): return .end
        case .left, .right, .backspace, .character: break
        }
        offset = max(0, offset)
        return .nothing
    }
}

// MARK: - Lines

extension MirrorModel {
    /// The screen at a time: as many lines as it has rows, none longer than its columns.
    ///
    /// - `isUnicode`: whether the terminal has more than ASCII.
    public mutating func lines(columns: Int, rows: Int, at now: UInt64, isUnicode: Bool) -> [[StyledText]] {
        let room = max(1, rows - Self.headAndFootRows)
        let all: [[StyledText]]
        if isPaused, let frozen {
            all = frozen
        } else {
            all = treeLines(columns: columns, at: now, isUnicode: isUnicode)
            if isPaused { frozen = all }
        }
        offset = max(0, min(offset, all.count - room))
        var lines = [[StyledText(title, .strong)]]
        lines += all[offset...].prefix(room)
        while lines.count < 1 + room { lines.append([]) }
        lines.append(foot(lineCount: all.count, room: room, at: now))
        return lines.map { StyledText.cut($0, to: columns) }
    }

    private func foot(lineCount: Int, room: Int, at now: UInt64) -> [StyledText] {
        if let typed { return [StyledText("/", .strong), StyledText(typed), StyledText("_", .faint)] }
        var parts = [
            Self.counted(tree.topicCount, "topic"), Self.counted(tree.messageCount, "message"),
            Self.rate(tree.rate.perSecond(at: now)),
        ]
        if tree.overlookedCount > 0 { parts.append("\(tree.overlookedCount) of too many topics") }
        if !filter.isEmpty { parts.append("showing \"\(filter)\"") }
        if isPaused { parts.append("paused") }
        if lineCount > room { parts.append("line \(offset + 1) of \(lineCount)") }
        if !status.isEmpty { parts.append(status) }
        return [
            StyledText(parts.filter { !$0.isEmpty }.joined(separator: "  "), .faint),
            StyledText("  / filter  p pause  q quit", .faint),
        ]
    }

    private func treeLines(columns: Int, at now: UInt64, isUnicode: Bool) -> [[StyledText]] {
        var rows: [Row] = []
        for node in tree.root.children where isShown(node, node.name) {
            add(node, prefix: "", below: "", names: isUnicode ? .unicode : .ascii, path: "", to: &rows)
        }
        let nameColumns = min(max(20, columns * 2 / 5), (rows.map { $0.columns }.max() ?? 0) + 2)
        return rows.map { row in line(row, nameColumns: nameColumns, columns: columns, at: now) }
    }

    private struct Row {
        var branch: String
        var name: String
        var leaf: TopicTree.Leaf?
        /// Topics below.
        var count: Int

        var columns: Int { branch.count + name.count }
    }

    private struct Branches {
        var middle: String, last: String, line: String

        static let unicode = Branches(middle: "├─ ", last: "└─ ", line: "│  ")
        static let ascii = Branches(middle: "|- ", last: "`- ", line: "|  ")
    }

    /// Levels that have one child and no message stand with it in one line: `home/kitchen`.
    private func add(_ start: TopicTree.Node, prefix: String, below: String, names: Branches, path: String, to rows: inout [Row]) {
        var (node, name, whole) = (start, Self.shown(start.name), path + start.name)
        var shown = shownChildren(of: node, whole)
        while node.leaf == nil, shown.count == 1, let child = shown.first {
            node = child
            name += "/" + Self.shown(child.name)
            whole += "/" + child.name
            shown = shownChildren(of: node, whole)
        }
        rows.append(Row(branch: prefix, name: name + (shown.isEmpty ? "" : "/"), leaf: node.leaf, count: node.topicCount))
        for (index, child) in shown.enumerated() {
            let isLast = index == shown.count - 1
            add(
                child, prefix: below + (isLast ? names.last : names.middle), below: below + (isLast ? "   " : names.line),
                names: names,
                path: whole + "/", to: &rows)
        }
    }

    private func shownChildren(of node: TopicTree.Node, _ path: String) -> [TopicTree.Node] {
        filter.isEmpty ? node.children : node.children.filter { isShown($0, path + "/" + $0.name) }
    }

    /// Whether the filter lets a node through: its topic or value, or something below it.
    private func isShown(_ node: TopicTree.Node, _ path: String) -> Bool {
        if filter.isEmpty { return true }
        let wanted = filter.lowercased()
        if path.lowercased().holds(wanted) { return true }
        if let leaf = node.leaf, PayloadText.line(leaf.payload, columns: 200).lowercased().holds(wanted) { return true }
        return node.children.contains { isShown($0, path + "/" + $0.name) }
    }

    private func line(_ row: Row, nameColumns: Int, columns: Int, at now: UInt64) -> [StyledText] {
        var spans = [StyledText(row.branch, .faint)]
        let padding = String(repeating: " ", count: max(1, nameColumns - row.columns))
        guard let leaf = row.leaf else {
            spans += [StyledText(row.name), StyledText(padding + "\(row.count)", .faint)]
            return spans
        }
        let isFresh = now &- leaf.changeTime < Self.freshMilliseconds
        spans.append(StyledText(row.name, isFresh ? .strong : .plain))
        let facts = Self.columned(Self.age(now &- leaf.time), 5) + Self.columned(Self.rate(leaf.rate.perSecond(at: now)), 10)
        let mark = leaf.isRetained ? " R" : "  "
        let valueColumns = max(8, columns - max(nameColumns, row.columns + 1) - facts.count - mark.count - 1)
        let value = PayloadText.line(leaf.payload, columns: valueColumns)
        spans += [
            StyledText(padding), StyledText(value, isFresh ? .fresh : leaf.payload.isEmpty ? .faint : .plain),
            StyledText(String(repeating: " ", count: max(0, valueColumns - TerminalText.columns(of: value)))),
            StyledText(mark, .mark), StyledText(facts, .faint),
        ]
        return spans
    }

    /// A level is told as it is but for what would move the cursor.
    private static func shown(_ level: String) -> String {
        level.isEmpty ? "\"\"" : PayloadText.line(Array(level.utf8), columns: 60)
    }

    private static func columned(_ text: String, _ columns: Int) -> String {
        String(repeating: " ", count: max(1, columns - text.count)) + text
    }

    /// `3s`, `4m`, `2h`, `5d`.
    static func age(_ milliseconds: UInt64) -> String {
        let seconds = milliseconds / 1000
        switch seconds {
        case 0..<60: return "\(seconds)s"
        case 60..<3600: return "\(seconds / 60)m"
        case 3600..<86_400: return "\(seconds / 3600)h"
        default: return "\(seconds / 86_400)d"
        }
    }

    /// `1 topic`, `2 topics`.
    static func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

    /// Empty for less than one a minute.
    static func rate(_ perSecond: Double) -> String {
        switch perSecond {
        case 9_950_000...: "\(Int(perSecond / 1_000_000 + 0.5)) M/s"
        case 9_950...: "\(Int(perSecond / 1000 + 0.5)) k/s"
        case 9.95...: "\(Int(perSecond + 0.5))/s"
        case 0.05...: tenths(perSecond) + "/s"
        case (1.0 / 60)...: "\(Int(perSecond * 60 + 0.5))/min"
        default: ""
        }
    }

    private static func tenths(_ number: Double) -> String {
        let tenths = Int(number * 10 + 0.5)
        return "\(tenths / 10).\(tenths % 10)"
    }

    /// A title, and a line about the whole.
    private static let headAndFootRows = 2
    /// How long what has changed stands out.
    static let freshMilliseconds: UInt64 = 1500
}

/// A payload as a piece of one line: nothing in it moves the cursor or changes colours.
enum PayloadText {
    /// Text as it is, control characters as blanks or their pictures, bytes that are no text as hexadecimal digits; cut
    /// with `…`.
    static func line(_ payload: [UInt8], columns: Int) -> String {
        guard !payload.isEmpty else { return "(empty)" }
        guard let text = text(payload) else {
            let digits = payload.prefix(columns / 2 + 1).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
            return TerminalText.shortened("0x" + digits.joined(), columns)
        }
        return TerminalText.line(text, columns: columns)
    }

    /// nil for bytes that are no text. A character that is cut at the end is left out.
    private static func text(_ payload: [UInt8]) -> String? {
        if let text = String(validating: payload, as: UTF8.self) { return text }
        guard payload.count == Limits.mirroredPayloadBytesMax else { return nil }
        for missing in 1...3 {
            if let text = String(validating: payload.dropLast(missing), as: UTF8.self) { return text }
        }
        return nil
    }
}
