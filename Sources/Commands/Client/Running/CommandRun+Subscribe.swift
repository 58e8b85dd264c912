internal import MartletClient
internal import Platform

extension CommandRun {
    /// `martlet sub`: prints messages until something ends it.
    func subscribe(_ client: Client) async {
        if !arguments.subscribing.unsubscribed.isEmpty { await unsubscribe(client) }
        guard !arguments.subscribing.filters.isEmpty else {
            ending.end(.done)
            return
        }
        // mosquitto_sub subscribes and unsubscribes: of such a filter nothing comes.
        let filters = arguments.subscribing.filters.filter { !arguments.subscribing.unsubscribed.contains($0) }
        guard !filters.isEmpty else {
            if arguments.subscribing.exitsWhenSubscribed { ending.end(.done) }
            await ending.never()
        }
        let messages = client.messages(filters, arguments.subscription)
        for filter in filters {
            console.debug("sending SUBSCRIBE (Topic: \(filter), QoS: \(arguments.qos.rawValue))")
        }
        Task { await waitForGrant(messages) }
        let printer = MessagePrinter(arguments, isForTerminal: console.isShown)
        var watch = arguments.subscribing.watches && console.isShown ? TopicLines(rows: TerminalScreen.size(of: 1).rows) : nil
        var filter = MessageSieve(arguments)
        var count = 0
        do throws(ClientError) {
            for try await message in messages {
                debug(message.received)
                switch filter.judge(message.received) {
                case .end:
                    ending.end(.done)
                    await ending.never()
                case .skip: message.done()
                case .accept(let isShown):
                    if arguments.subscribing.removesRetained, message.retain { await remove(message.topic, client) }
                    count += 1
                    let frame = isShown ? watch?.line(of: message.topic.bytes) : nil
                    if let failure = show(message, isShown ? printer : nil, in: frame, thenEnd: reason(after: count)) {
                        ending.end(failure)
                        await ending.never()
                    }
                }
                // What comes after the end is left to the next connection of a session that is kept.
                if ending.hasEnded { await ending.never() }
            }
        } catch {
            ending.end(.failed(error))
        }
        await ending.never()
    }

    /// Why the command ends with the message of that number, if it does.
    func reason(after count: Int) -> Ending.Reason? { count == arguments.subscribing.messageCountMax ? .done : nil }

    /// Prints a message if there is a printer, acknowledges it, and ends the command if it is the last. Returns why it
    /// cannot go on, if it cannot.
    ///
    /// - Parameter line: the topic's line on the terminal; nil where messages follow each other.
    func show(
        _ message: Message, _ printer: MessagePrinter?, in line: TopicLines.Line? = nil, thenEnd reason: Ending.Reason?
    ) -> Ending.Reason? {
        let printed = printer?.print(PrintableMessage(message.received), at: .now)
        if let complaint = printed?.complaint { console.complain(complaint) }
        let bytes = printed?.bytes ?? []
        return console.write(line?.around(bytes) ?? bytes) {
            message.done()
            if let reason { ending.end(reason) }
        }
    }

    func debug(_ message: ReceivedMessage) {
        console.debug(
            "received PUBLISH (d\(message.duplicate ? 1 : 0), q\(message.qos.rawValue), r\(message.retain ? 1 : 0), m\(message.token?.packetIdentifier ?? 0), '\(message.topic)', ... (\(message.payload.count) bytes))"
        )
    }

    private func waitForGrant(_ messages: Messages) async {
        do throws(ClientError) {
            let answers = try await messages.granted()
            console.debug("received SUBACK")
            console.debugPlain("Subscribed: \(answers.map { "\($0.rawValue)" }.joined(separator: ", "))")
            if let reason = answers.last, answers.allSatisfy(\.isError) {
                ending.end(.complaint("All subscription requests were denied.", code: Int32(reason.rawValue)))
            } else if arguments.subscribing.exitsWhenSubscribed {
                ending.end(.done)
            }
        } catch {
            ending.end(.failed(error))
        }
    }

    private func unsubscribe(_ client: Client) async {
        for filter in arguments.subscribing.unsubscribed { console.debug("sending UNSUBSCRIBE (Topic: \(filter))") }
        do throws(ClientError) {
            try await client.unsubscribe(arguments.subscribing.unsubscribed, properties: arguments.properties.unsubscribe)
        } catch {
            ending.end(.failed(error))
        }
    }

    private func remove(_ topic: TopicName, _ client: Client) async {
        do throws(ClientError) {
            try await client.publish(Publication(topic, Payload(), qos: .atLeastOnce, retain: true))
        } catch {
            console.complain("Warning: The retained message of \(topic) was not removed: \(error).")
        }
    }
}

/// Which messages `martlet sub` shows.
struct MessageSieve {
    enum Verdict: Equatable {
        /// It counts; not all that count are shown.
        case accept(isShown: Bool)
        case skip
        /// Nothing after it is wanted.
        case end
    }

    private let arguments: ClientArguments
    private var generator: any RandomNumberGenerator

    init(_ arguments: ClientArguments, generator: any RandomNumberGenerator = SystemRandomNumberGenerator()) {
        (self.arguments, self.generator) = (arguments, generator)
    }

    mutating func judge(_ message: ReceivedMessage) -> Verdict {
        if arguments.subscribing.retainedOnly, !message.retain { return .end }
        // As mosquitto_sub, which has ended before the first of them comes.
        if arguments.subscribing.exitsWhenSubscribed, message.retain { return .skip }
        if arguments.subscribing.filtersOut.contains(where: { $0.matches(message.topic) }) { return .skip }
        // As mosquitto_sub: they are removed though they are not shown.
        if arguments.subscribing.noRetained, message.retain {
            return arguments.subscribing.removesRetained ? .accept(isShown: false) : .skip
        }
        guard let share = arguments.subscribing.randomShare else { return .accept(isShown: true) }
        return .accept(isShown: Int.random(in: 0..<1000, using: &generator) < share)
    }
}

extension ClientArguments {
    /// The subscription that the arguments ask for.
    var subscription: SubscriptionSettings {
        var settings = SubscriptionSettings(qos: qos, backlog: Self.backlog, acknowledging: .whenDone)
        settings.retainAsPublished = subscribing.retainAsPublished
        if subscribing.noRetained, !subscribing.removesRetained, !subscribing.retainAsPublished {
            settings.retainHandling = .doNotSend
        }
        // Of several filters those that are granted are enough.
        settings.optionalFilterCount = subscribing.filters.count
        settings.userProperties = properties.subscribe.userProperties
        return settings
    }

    /// What waits while the output stands still: a pager, a slow terminal. Of QoS 0 the rest is dropped, and counted at
    /// the end.
    private static let backlog = SubscriptionSettings.Backlog.hold(1_000_000, bytes: 64 << 20)
}

extension PrintableMessage {
    init(_ message: ReceivedMessage) {
        self.init(
            topic: message.topic, payload: message.payload.bytes, qos: message.qos, retain: message.retain,
            duplicate: message.duplicate, packetIdentifier: message.token?.packetIdentifier ?? 0, properties: message.properties)
    }
}

/// The picture of `martlet sub -w`: each topic has a line of the terminal, in the order in which they came.
struct TopicLines {
    /// Where a topic's message is written.
    struct Line: Equatable {
        /// Counted from 1.
        let number: Int
        /// Where the cursor waits: below all lines, so that what ends the command is written there.
        let rest: Int
        /// Whether the terminal is cleared first.
        let isFirst: Bool
        /// Whether there is no line for the topic any more.
        let isBeyond: Bool

        /// A printed message with what moves the cursor around it. Of one that has several lines the first is shown.
        func around(_ printed: [UInt8]) -> [UInt8] {
            if isBeyond { return [] }
            let text = printed.prefix { $0 != UInt8(ascii: "\n") }
            let clear = isFirst ? "\u{1B}[H\u{1B}[2J" : ""
            // Without wrapping: what is too long for its line would be written into the next topic's.
            return Array("\(clear)\u{1B}[?7l\u{1B}[\(number);1H".utf8) + text + Array("\u{1B}[K\u{1B}[?7h\u{1B}[\(rest);1H".utf8)
        }
    }

    /// What the terminal has; the last one is the cursor's.
    private let rows: Int
    /// Bytes: of as many topics as the terminal has rows.
    private var lines: [[UInt8]: Int] = [:]

    init(rows: Int) { self.rows = max(2, rows) }

    /// The line of a topic: a new one, if it has none yet and there is room.
    mutating func line(of topic: some Collection<UInt8>) -> Line {
        let topic = Array(topic)
        let isFirst = lines.isEmpty
        if lines[topic] == nil, lines.count < rows - 1 { lines[topic] = lines.count + 1 }
        let number = lines[topic]
        return Line(number: number ?? rows, rest: lines.count + 1, isFirst: isFirst, isBeyond: number == nil)
    }
}
