internal import Glibc
internal import MartletClient
internal import Platform

extension CommandRun {
    /// `martlet pub`: a message, once or several times, or the lines of standard input.
    func publish(_ client: Client, _ payload: [UInt8]?) async {
        guard let topic = arguments.publishing.topic else { return }
        let tally = PublishTally(arguments, console)
        defer { tally.finish() }
        if let payload {
            let publication = publication(topic, payload)
            for number in 1...arguments.publishing.repeatCount {
                if number > 1, arguments.publishing.repeatDelaySeconds > 0 {
                    try? await Task.sleep(for: .seconds(arguments.publishing.repeatDelaySeconds))
                }
                debug(publication)
                await send(publication, number: number, client, tally)
                if ending.hasEnded { return }
            }
        } else {
            await publishLines(topic, client, tally)
        }
        tally.finish()
        ending.end(.code(tally.exitCode))
    }

    private func publication(_ topic: TopicName, _ payload: [UInt8]) -> Publication {
        Publication(
            topic, Payload(payload), qos: arguments.qos, retain: arguments.publishing.retain,
            properties: arguments.properties.publish)
    }

    /// Lines leave in their order; so many at a time wait for the server.
    private func publishLines(_ topic: TopicName, _ client: Client, _ tally: PublishTally) async {
        let input = StandardInput()
        var splitter = LineSplitter()
        await withTaskGroup(of: Void.self) { group in
            var number = 0
            var waiting = 0
            func send(_ line: [UInt8]) async {
                number += 1
                let publication = publication(topic, line)
                debug(publication)
                guard arguments.qos != .atMostOnce else { return await self.send(publication, number: number, client, tally) }
                if waiting >= Limits.linesWaitingMax {
                    await group.next()
                    waiting -= 1
                }
                waiting += 1
                // It begins at once, so that lines are handed to the client in their order.
                group.addImmediateTask { [number] in await self.send(publication, number: number, client, tally) }
            }
            while !ending.hasEnded, let chunk = await input.next() {
                for line in splitter.take(chunk) { await send(line) }
                guard splitter.waitingByteCount <= Limits.payloadBytesMax else {
                    ending.end(.complaint("Error: A line is longer than the maximum message.", code: ClientExitCode.failure))
                    return
                }
            }
            if let line = splitter.last() { await send(line) }
            await group.waitForAll()
        }
    }

    private func send(_ publication: Publication, number: Int, _ client: Client, _ tally: PublishTally) async {
        while !ending.hasEnded {
            do throws(ClientError) {
                try await client.publish(publication)
                return tally.sent(publication.payload.count)
            } catch {
                switch error {
                case .refused(let reason, let words, _):
                    return tally.refused(
                        reason, "Warning: Publish \(number) failed: \(ClientExitCode.sentence(reason)).", words.map { "\($0)" })
                // The connection is away and enough waits for it.
                case .queueFull: try? await Task.sleep(for: .milliseconds(50))
                default:
                    ending.end(.failed(error))
                    return
                }
            }
        }
    }

    func debug(_ publication: Publication) {
        console.debug(
            "sending PUBLISH (d0, q\(publication.qos.rawValue), r\(publication.retain ? 1 : 0), '\(publication.topic)', ... (\(publication.payload.count) bytes))"
        )
    }
}

/// What was sent, and how that goes on a terminal: a line on standard error while input comes from somewhere else.
private final class PublishTally: Sendable {
    private struct State {
        var messageCount = 0
        var byteCount = 0
        var worst: ReasonCode?
        var shownAt: UInt64 = 0
        var isShown = false
        var isFinished = false
    }

    private let state = Locked(State())
    private let console: CommandConsole
    private let isVisible: Bool
    private let start = MonotonicClock.nanoseconds()

    init(_ arguments: ClientArguments, _ console: CommandConsole) {
        self.console = console
        let isLong = arguments.publishing.source == .lines && isatty(0) == 0 || arguments.publishing.repeatCount > 1
        isVisible = isLong && !arguments.printing.isQuiet && !arguments.printing.isDebugging && TerminalScreen(2) != nil
    }

    /// The reason code of the last refusal.
    var exitCode: Int32 { state.withLock { $0.worst.map { Int32($0.rawValue) } ?? ClientExitCode.success } }

    func sent(_ byteCount: Int) {
        let line = state.withLock { state -> String? in
            state.messageCount += 1
            state.byteCount += byteCount
            guard isVisible, !state.isFinished else { return nil }
            // The clock is not looked at for each of millions.
            guard state.messageCount & 15 == 0 || state.messageCount < 1000 else { return nil }
            let now = MonotonicClock.nanoseconds()
            guard now &- max(state.shownAt, start) >= Self.intervalNanoseconds else { return nil }
            (state.shownAt, state.isShown) = (now, true)
            return Self.line(state.messageCount, state.byteCount, nanoseconds: now &- start)
        }
        if let line { _ = CommandConsole.write(Array("\r\(line)\u{1b}[K".utf8), to: 2) }
    }

    func refused(_ reason: ReasonCode, _ words: String, _ detail: String?) {
        state.withLock { $0.worst = reason }
        console.complain(words, detail)
    }

    /// Leaves the last figures, and the prompt below them.
    func finish() {
        let line = state.withLock { state -> String? in
            guard state.isShown, !state.isFinished else { return nil }
            state.isFinished = true
            return Self.line(state.messageCount, state.byteCount, nanoseconds: MonotonicClock.nanoseconds() &- start)
        }
        if let line { _ = CommandConsole.write(Array("\r\(line)\u{1b}[K\n".utf8), to: 2) }
    }

    private static func line(_ messages: Int, _ bytes: Int, nanoseconds: UInt64) -> String {
        let seconds = max(0.001, Double(nanoseconds) / 1e9)
        return
            "\(MirrorModel.counted(messages, "message")), \(scaled(Double(bytes)))B, \(MirrorModel.rate(Double(messages) / seconds)), \(scaled(Double(bytes) / seconds))B/s"
    }

    private static func scaled(_ number: Double) -> String {
        switch number {
        case 1e9...: "\(Int(number / 1e8) / 10).\(Int(number / 1e8) % 10) G"
        case 1e6...: "\(Int(number / 1e5) / 10).\(Int(number / 1e5) % 10) M"
        case 1e3...: "\(Int(number / 1e2) / 10).\(Int(number / 1e2) % 10) k"
        default: "\(Int(number)) "
        }
    }

    private static let intervalNanoseconds: UInt64 = 250_000_000
}
