internal import MartletClient

extension CommandRun {
    /// `martlet request`: a message, and the answer to it.
    func request(_ client: Client, _ payload: [UInt8]) async {
        guard let topic = arguments.topic else { return }
        let responseTopic = arguments.responseTopic ?? Self.inventedTopic()
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
                    .complaint("Error: \(ExitCode.sentence(refusal)): subscription to \(filter)", code: Int32(refusal.rawValue)))
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
                let code = answer.received.tellsFailure ? ExitCode.failure : ExitCode.success
                if let failure = show(answer, MessagePrinter(arguments, isForTerminal: console.isShown), thenEnd: .code(code)) {
                    ending.end(failure)
                }
                await ending.never()
            }
        } catch {
            if case .refused(let reason, _, _) = error {
                ending.end(.complaint("Error: Publish failed: \(ExitCode.sentence(reason)).", code: Int32(reason.rawValue)))
            } else {
                ending.end(.failed(error))
            }
        }
        await ending.never()
    }

    /// Whoever answers without Correlation Data is taken at their word, as mosquitto_rr does.
    private func isAnswer(_ message: ReceivedMessage, to request: Publication) -> Bool {
        if arguments.noRetained, message.retain { return false }
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
