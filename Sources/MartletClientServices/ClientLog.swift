#if Logging
    public import Logging
    public import MartletClient

    /// Writes to a logger what a client publishes: each message as a trace, each that was not taken as a notice.
    ///
    /// ```swift
    /// var settings = ClientSettings(server: "mqtt://broker.example")
    /// settings.interceptors.append(LoggingInterceptor(logger))
    /// let client = try Client(settings)
    /// Task { await client.logStates(to: logger) }
    /// ```
    public struct LoggingInterceptor: Interceptor {
        private let logger: Logger

        /// Writes to this logger.
        public init(_ logger: Logger) { self.logger = logger }

        /// Writes a trace, or a notice if the message was not taken.
        public func didPublish(
            _ publication: Publication, _ outcome: Result<PublishReceipt, ClientError>, after duration: Duration
        ) {
            switch outcome {
            case .success(let receipt):
                logger.trace(
                    "published",
                    metadata: about(publication).merging(["reason": "\(receipt.reason)", "took": "\(duration)"]) { $1 })
            case .failure(.cancelled):
                logger.trace("publishing was cancelled", metadata: about(publication))
            case .failure(let error):
                logger.notice("not published: \(error)", metadata: about(publication))
            }
        }

        /// Writes a trace.
        public func didReceive(_ message: inout ReceivedMessage) {
            logger.trace(
                "received",
                metadata: ["topic": "\(message.topic)", "qos": "\(message.qos.rawValue)", "bytes": "\(message.payload.count)"])
        }

        /// What has no subscription may be the last of its kind, a full backlog goes on and on: `Client.logStates` says
        /// of which subscription it is.
        public func didDrop(_ messages: DroppedMessages) {
            switch messages.reason {
            case .noSubscription: logger.warning("\(messages)", metadata: ["count": "\(messages.count)"])
            case .backlogFull: logger.debug("\(messages)", metadata: ["count": "\(messages.count)"])
            }
        }

        private func about(_ publication: Publication) -> Logger.Metadata {
            [
                "topic": "\(publication.topic)", "qos": "\(publication.qos.rawValue)",
                "bytes": "\(publication.payload.count)",
            ]
        }
    }

    extension Client {
        /// Writes each change of the connection's state until the client ends or the task is cancelled: online and
        /// offline as information, attempts that fail as warnings, what is given up as an error; and which
        /// subscriptions hold the client, as a warning, and that they do no more, with how many messages were dropped
        /// meanwhile.
        public func logStates(to logger: Logger) async {
            var (connection, heldBy, dropped) = (UInt64(0), [TopicFilter](), 0)
            for await state in states {
                if state.heldBy != heldBy {
                    let before = dropped
                    (heldBy, dropped) = (state.heldBy, self.dropped.backlogFull)
                    if heldBy.isEmpty {
                        logger.info("no subscription holds the client any more", metadata: ["dropped": "\(dropped - before)"])
                    } else {
                        logger.warning(
                            "consumers take less than comes: \(heldBy.map(\.description).joined(separator: " "))",
                            metadata: ["dropped": "\(dropped - before)"])
                    }
                }
                if case .online(let server) = state, server.connectionNumber == connection { continue }
                if case .online(let server) = state { connection = server.connectionNumber }
                switch state {
                case .offline: logger.info("offline")
                case .connecting(let attempt): logger.debug("connecting", metadata: ["attempt": "\(attempt)"])
                case .online(let server):
                    logger.info(
                        "online",
                        metadata: ["server": "\(server.address)", "session": server.isSessionPresent ? "resumed" : "new"])
                case .waiting(let pause, let error):
                    logger.warning("no connection: \(error)", metadata: ["again-in-ms": "\(Int64(pause / .milliseconds(1)))"])
                case .refused(let error): logger.error("given up: \(error)")
                case .ended: logger.info("ended")
                }
            }
        }
    }
#endif
