internal import Glibc
internal import MartletClient
internal import Platform

/// A client command from connecting to its exit code.
struct CommandRun: Sendable {
    let arguments: ClientArguments
    let ending: Ending
    let console: CommandConsole
    let screen: MirrorScreen?

    init(_ arguments: ClientArguments, _ ending: Ending, _ screen: MirrorScreen?) {
        (self.arguments, self.ending, self.screen) = (arguments, ending, screen)
        console = CommandConsole(arguments)
    }

    /// Returns the exit code.
    func run() async -> Int32 {
        let payload: [UInt8]?
        do throws(ArgumentError) {
            payload = try await messagePayload()
        } catch {
            console.complain(error.description)
            return ClientExitCode.failure
        }
        let client: Client
        do throws(ClientError) {
            client = try Client(try ClientSettings(arguments))
        } catch {
            return report(.failed(error))
        }
        if arguments.isForItsReader { console.watchReader(ending) }
        let work = Task { await connectAndWork(client, payload) }
        let reason = await ending.wait()
        // The screen shows no more when the command says why it ended.
        screen?.leave()
        let code = report(reason)
        if arguments.command == .sub, client.dropped.backlogFull > 0 {
            console.complain(
                "Warning: \(client.dropped.backlogFull) messages were dropped: they came faster than they were printed.")
        }
        console.debug("sending DISCONNECT")
        await client.disconnect(arguments.disconnectReason(reason), properties: arguments.properties.disconnect)
        withExtendedLifetime(work) {}
        if case .signal(let number) = reason, !endsWellOnSignal(number) { CommandProcess.die(of: number) }
        return code
    }

    private func connectAndWork(_ client: Client, _ payload: [UInt8]?) async {
        Task { await watch(client) }
        console.debug("sending CONNECT")
        do throws(ClientError) {
            try await client.connect()
        } catch {
            ending.end(.failed(error))
            return
        }
        if let seconds = arguments.subscribing.timeoutSeconds {
            Task {
                try? await Task.sleep(for: .seconds(seconds))
                ending.end(.timeout)
            }
        }
        switch arguments.command {
        case .pub: await publish(client, payload)
        case .sub: await subscribe(client)
        case .request: await request(client, payload ?? [])
        case .respond: await respond(client, payload)
        case .mirror: await mirror(client)
        }
    }

    /// A final refusal ends the command; others are shown with `-d` only.
    private func watch(_ client: Client) async {
        for await state in client.states {
            screen?.show(state)
            switch state {
            case .online: console.debug("received CONNACK (0)")
            case .refused(let error):
                ending.end(.failed(error))
                return
            case .waiting(let pause, let error):
                // It may come again and again, and the user can help it.
                if case .packetTooLarge = error {
                    console.complain("Error: \(error) (-D connect maximum-packet-size sets another)")
                }
                console.debug("lost its connection: \(error); again in \(Int64(pause / .milliseconds(1))) ms")
            case .connecting(let attempt): if attempt > 1 { console.debug("sending CONNECT") }
            case .offline, .ended: continue
            }
        }
    }

    /// Says what there is to say, and returns the exit code.
    private func report(_ reason: Ending.Reason) -> Int32 {
        switch reason {
        case .done: return ClientExitCode.success
        case .code(let code): return code
        // mosquitto_sub ends so, too.
        case .signal: return ClientExitCode.success
        case .timeout:
            console.complain("Timed out")
            return ClientExitCode.timeout
        case .failed(let error):
            let (words, code) = ClientExitCode.of(error, arguments.version)
            console.complain(words)
            return code
        case .complaint(let words, let code):
            console.complain(words)
            return code
        }
    }

    /// Whether a signal is the usual way to end the command.
    private func endsWellOnSignal(_ number: Int32) -> Bool {
        switch arguments.command {
        case .sub, .respond, .mirror: CommandProcess.polite.contains(number)
        case .pub, .request: false
        }
    }
}

extension CommandProcess {
    /// Somebody asks to end.
    static let polite = [endingSignals[0], endingSignals[1]]
}

extension ClientArguments {
    /// Whether the command does nothing but print: without a reader it need not go on.
    fileprivate var isForItsReader: Bool {
        switch command {
        case .sub: !subscribing.filters.isEmpty && !subscribing.exitsWhenSubscribed && !subscribing.removesRetained
        case .mirror: true
        case .pub, .request, .respond: false
        }
    }

    /// mosquitto_sub lets the broker send the will of a client that is ended by a signal or its time, and so does this.
    fileprivate func disconnectReason(_ reason: Ending.Reason) -> ReasonCode {
        guard version == .v5, will != nil else { return .normalDisconnection }
        switch reason {
        case .signal, .timeout: return .disconnectWithWillMessage
        case .done, .code, .failed, .complaint: return .normalDisconnection
        }
    }
}

extension CommandRun {
    /// `martlet mirror`: the topics as a tree on a terminal, a line for each message elsewhere.
    func mirror(_ client: Client) async {
        var subscription = arguments.subscription
        // Marks what is retained also when it changes.
        subscription.retainAsPublished = arguments.version == .v5
        subscription.retainHandling = .sendAtSubscribe
        let messages = client.messages(arguments.subscribing.filters, subscription)
        Task { await waitForGrantOfMirror(messages) }
        screen?.enter(endingWith: ending)
        var sieve = MessageSieve(arguments)
        let printer = MessagePrinter(arguments.asLines)
        var count = 0
        do throws(ClientError) {
            for try await message in messages {
                guard case .accept = sieve.judge(message.received) else {
                    message.done()
                    continue
                }
                count += 1
                let isOnScreen = screen?.isShown == true
                if isOnScreen { screen?.received(message.received) }
                if let failure = show(message, isOnScreen ? nil : printer, thenEnd: reason(after: count)) {
                    ending.end(failure)
                    await ending.never()
                }
                if ending.hasEnded { await ending.never() }
            }
        } catch {
            ending.end(.failed(error))
        }
        await ending.never()
    }

    private func waitForGrantOfMirror(_ messages: Messages) async {
        do throws(ClientError) {
            let answers = try await messages.granted()
            if let reason = answers.last, answers.allSatisfy(\.isError) {
                ending.end(.complaint("All subscription requests were denied.", code: Int32(reason.rawValue)))
            }
        } catch {
            ending.end(.failed(error))
        }
    }
}

extension ClientArguments {
    /// Where nobody watches a mirror's messages are lines: the retained mark, topic and payload; or JSON.
    fileprivate var asLines: ClientArguments {
        var arguments = self
        if arguments.printing.output != .json { arguments.printing.output = .verbose }
        return arguments
    }
}

extension CommandRun {
    /// `martlet request`: a message, and the answer to it.
    func request(_ client: Client, _ payload: [UInt8]) async {
        guard let topic = arguments.publishing.topic else { return }
        let responseTopic = arguments.publishing.responseTopic ?? Self.inventedTopic()
        guard let filter = TopicFilter(responseTopic.bytes) else { return }
        var publication = Publication(topic, Payload(payload), qos: arguments.qos, properties: arguments.properties.publish)
        if arguments.version == .v5 {
            publication.properties.responseTopic = responseTopic.text
            if publication.properties.correlationData == nil { publication.properties.correlationData = Self.randomBytes() }
        }
        let answers = client.messages([filter], arguments.subscription)
        do throws(ClientError) {
            if let refusal = try await answers.granted().first(where: \.isError) {
                ending.end(
                    .complaint(
                        "Error: \(ClientExitCode.sentence(refusal)): subscription to \(filter)", code: Int32(refusal.rawValue)))
                await ending.never()
            }
            debug(publication)
            if try await client.publish(publication).reason == .noMatchingSubscribers {
                ending.end(
                    .complaint("Error: Nobody subscribes to \(topic).", code: Int32(ReasonCode.noMatchingSubscribers.rawValue)))
                await ending.never()
            }
            for try await answer in answers {
                debug(answer.received)
                guard isAnswer(answer.received, to: publication) else {
                    answer.done()
                    continue
                }
                let code = answer.received.tellsFailure ? ClientExitCode.failure : ClientExitCode.success
                if let failure = show(answer, MessagePrinter(arguments, isForTerminal: console.isShown), thenEnd: .code(code)) {
                    ending.end(failure)
                }
                await ending.never()
            }
        } catch {
            if case .refused(let reason, _, _) = error {
                ending.end(.complaint("Error: Publish failed: \(ClientExitCode.sentence(reason)).", code: Int32(reason.rawValue)))
            } else {
                ending.end(.failed(error))
            }
        }
        await ending.never()
    }

    /// An answer without Correlation Data is accepted for any request, as mosquitto_rr does.
    private func isAnswer(_ message: ReceivedMessage, to request: Publication) -> Bool {
        if arguments.subscribing.noRetained, message.retain { return false }
        guard let data = message.properties.correlationData else { return true }
        return data == request.properties.correlationData
    }

    /// Nobody else's topic.
    private static func inventedTopic() -> TopicName {
        TopicName(Array("martlet/answer/\(String(UInt64.random(in: .min ... .max), radix: 36))".utf8)) ?? "martlet/answer"
    }

    private static func randomBytes() -> [UInt8] { (0..<16).map { _ in UInt8.random(in: .min ... .max) } }
}

extension ReceivedMessage {
    /// Whether a responder of this library's says so.
    fileprivate var tellsFailure: Bool {
        hasProperties && properties.userProperties.contains { $0.name == "martlet-answer" }
    }
}

extension CommandRun {
    /// `martlet respond`: answers requests with one payload, or with what a program writes.
    func respond(_ client: Client, _ payload: [UInt8]?) async {
        guard arguments.version == .v5 else {
            ending.end(.complaint("Error: Requests have a response topic only with MQTT 5.0 (-V 5).", code: ClientExitCode.failure))
            return
        }
        let requests = client.messages(arguments.subscribing.filters, arguments.subscription)
        Task { await waitForGrantOfRequests(requests) }
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            var count = 0
            do throws(ClientError) {
                for try await request in requests {
                    debug(request.received)
                    if running >= arguments.publishing.jobs {
                        await group.next()
                        running -= 1
                    }
                    running += 1
                    group.addTask { await answer(request, client, payload) }
                    count += 1
                    if count == arguments.subscribing.messageCountMax {
                        await group.waitForAll()
                        ending.end(.done)
                        await ending.never()
                    }
                }
            } catch {
                ending.end(.failed(error))
            }
        }
        await ending.never()
    }

    private func waitForGrantOfRequests(_ requests: Messages) async {
        do throws(ClientError) {
            let answers = try await requests.granted()
            console.debug("received SUBACK")
            if let reason = answers.last, answers.allSatisfy(\.isError) {
                ending.end(.complaint("All subscription requests were denied.", code: Int32(reason.rawValue)))
            }
        } catch {
            ending.end(.failed(error))
        }
    }

    private func answer(_ request: Message, _ client: Client, _ payload: [UInt8]?) async {
        defer { request.done() }
        guard let topic = request.properties.responseTopic.flatMap({ TopicName($0.bytes) }) else {
            console.complain("Warning: A request on \(request.topic) has no response topic.")
            return
        }
        var answer = Publication(topic, Payload(payload ?? []), qos: arguments.qos, properties: arguments.properties.publish)
        answer.properties.correlationData = request.properties.correlationData
        if payload == nil {
            let result = await AnswerProgram(arguments.publishing.program).run(
                request.payload.bytes,
                environment: [
                    "MARTLET_TOPIC": "\(request.topic)", "MARTLET_RESPONSE_TOPIC": "\(topic)",
                    "MARTLET_CONTENT_TYPE": request.properties.contentType.map { "\($0)" } ?? "",
                ])
            answer.payload = Payload(result.output)
            if let failure = result.failure {
                console.complain("Warning: \(arguments.publishing.program.joined(separator: " ")): \(failure).")
                answer.properties.userProperties.append(UserProperty(name: "martlet-answer", value: "failure"))
            }
        }
        debug(answer)
        do throws(ClientError) {
            try await client.publish(answer)
        } catch {
            console.complain("Warning: The answer to \(topic) was not sent: \(error).")
        }
    }
}

extension CommandRun {
    /// The payload of -m, -f, -s or -n; nil for lines and for a program's answers.
    func messagePayload() async throws(ArgumentError) -> [UInt8]? {
        switch arguments.publishing.source {
        case .text(let bytes): return bytes
        case .null: return []
        case .lines, nil: return nil
        case .file(let path):
            let bytes: [UInt8]
            do throws(WholeFile.Failure) {
                bytes = try WholeFile.bytes(of: path, bytesMax: Limits.payloadBytesMax)
            } catch {
                throw ArgumentError("Error: Unable to open file \"\(path)\": \(Self.words(for: error)).")
            }
            return bytes
        case .input:
            var bytes: [UInt8] = []
            let input = StandardInput()
            while let chunk = await input.next() {
                bytes += chunk
                guard bytes.count <= Limits.payloadBytesMax else {
                    throw ArgumentError(
                        "Error: Standard input is longer than the maximum message, \(Limits.payloadBytesMax) bytes.")
                }
            }
            guard !bytes.isEmpty else { throw ArgumentError("Error: Zero length input.") }
            return bytes
        }
    }

    private static func words(for failure: WholeFile.Failure) -> String {
        switch failure {
        case .refused(let error): error.reason
        case .isDirectory: "it is a directory"
        case .isTooLarge: "it is longer than the maximum message, \(Limits.payloadBytesMax) bytes"
        }
    }
}

/// Standard input, read by a thread of its own, so that no other task waits for somebody who types.
final class StandardInput: Sendable {
    private struct State {
        var chunk: [UInt8]?
        var hasEnded = false
        var isWanted = false
        var reader: UnsafeContinuation<[UInt8]?, Never>?
    }

    private let state = Locked(State())
    private let monitor = Monitor()
    private let thread = Locked<NamedThread?>(nil)

    /// The next bytes; nil at the end. One task at a time.
    func next() async -> [UInt8]? {
        start()
        return await withUnsafeContinuation { continuation in
            state.withLock { $0.reader = continuation }
            monitor.withLock {
                state.withLock { $0.isWanted = true }
                monitor.signal()
            }
        }
    }

    private func start() {
        thread.withLock { thread in
            guard thread == nil else { return }
            thread = try? NamedThread.start(name: "standard input") { [self] in readAll() }
        }
    }

    private func readAll() {
        while true {
            monitor.withLock { while !state.withLock({ $0.isWanted }) { monitor.wait() } }
            let chunk = Self.read()
            let reader = state.withLock { state in
                state.isWanted = false
                return state.reader.take()
            }
            reader?.resume(returning: chunk)
            if chunk == nil { return }
        }
    }

    private static func read() -> [UInt8]? {
        [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            repeat { count = max(-1, Glibc.read(0, buffer.baseAddress, buffer.count)) } while count < 0 && errno == EINTR
            count = max(0, count)
        }.nilIfEmpty
    }
}

extension [UInt8] {
    fileprivate var nilIfEmpty: [UInt8]? { isEmpty ? nil : self }
}

/// Lines out of chunks; their ends are taken off, the last one need not have one.
struct LineSplitter {
    private var rest: [UInt8] = []

    /// The lines that are whole with this chunk.
    mutating func take(_ chunk: [UInt8]) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var start = chunk.startIndex
        while let end = chunk[start...].firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(rest + chunk[start..<end])
            rest = []
            start = end + 1
        }
        rest += chunk[start...]
        return lines
    }

    /// What stands behind the last end of a line; nil if nothing does.
    mutating func last() -> [UInt8]? {
        defer { rest = [] }
        return rest.isEmpty ? nil : rest
    }

    var waitingByteCount: Int { rest.count }
}
