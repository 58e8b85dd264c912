internal import MartletClient
internal import Platform

extension CommandRun {
    /// `martlet mirror`: the topics as a tree on a terminal, a line for each message elsewhere.
    func mirror(_ client: Client) async {
        var subscription = arguments.subscription
        // Marks what is retained also when it changes.
        subscription.retainAsPublished = arguments.version == .v5
        subscription.retainHandling = .sendAtSubscribe
        let messages = client.messages(arguments.filters, subscription)
        Task { await waitForGrantOfMirror(messages) }
        screen?.enter(endingWith: ending)
        var sieve = MessageSieve(arguments)
        let printer = MessagePrinter(arguments.asLines)
        var count = 0
        do throws(ClientError) {
            for try await message in messages {
                guard case .take = sieve.judge(message.received) else {
                    message.done()
                    continue
                }
                count += 1
                let isOnScreen = screen?.isShown == true
                if isOnScreen { screen?.take(message.received) }
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
        if arguments.output != .json { arguments.output = .verbose }
        return arguments
    }
}
