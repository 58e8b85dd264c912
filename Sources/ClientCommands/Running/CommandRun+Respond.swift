internal import MartletClient

extension CommandRun {
    /// `martlet respond`: answers requests with one payload, or with what a program writes.
    func respond(_ client: Client, _ payload: [UInt8]?) async {
        guard arguments.version == .v5 else {
            ending.end(.complaint("Error: Requests have a response topic only with MQTT 5.0 (-V 5).", code: ExitCode.failure))
            return
        }
        let requests = client.messages(arguments.filters, arguments.subscription)
        Task { await waitForGrantOfRequests(requests) }
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            var count = 0
            do throws(ClientError) {
                for try await request in requests {
                    debug(request.received)
                    if running >= arguments.jobs {
                        await group.next()
                        running -= 1
                    }
                    running += 1
                    group.addTask { await answer(request, client, payload) }
                    count += 1
                    if count == arguments.messageCountMax {
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
            let result = await AnswerProgram(arguments.program).run(
                request.payload.bytes,
                environment: [
                    "MARTLET_TOPIC": "\(request.topic)", "MARTLET_RESPONSE_TOPIC": "\(topic)",
                    "MARTLET_CONTENT_TYPE": request.properties.contentType.map { "\($0)" } ?? "",
                ])
            answer.payload = Payload(result.output)
            if let failure = result.failure {
                console.complain("Warning: \(arguments.program.joined(separator: " ")): \(failure).")
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
