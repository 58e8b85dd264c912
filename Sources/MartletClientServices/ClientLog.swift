#if Logging
    public import Logging
    public import MartletClient

    /// Writes to a logger what a client publishes: each message as a trace, each that was not taken as a notice.
    ///
    /// ```swift
    /// settings.interceptors.append(LoggingInterceptor(logger))
    /// let client = try Client(settings)
    /// Task { await client.logStates(to: logger) }
    /// ```
    public struct LoggingInterceptor: Interceptor {
        private let logger: Logger

        public init(_ logger: Logger) { self.logger = logger }

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

        public func didReceive(_ message: inout ReceivedMessage) {
            logger.trace(
                "received",
                metadata: ["topic": "\(message.topic)", "qos": "\(message.qos.rawValue)", "bytes": "\(message.payload.count)"])
        }

        private func about(_ publication: Publication) -> Logger.Metadata {
            [
                "topic": "\(publication.topic)", "qos": "\(publication.qos.rawValue)",
                "bytes": "\(publication.payload.count)",
            ]
        }
    }

    extension Client {
        /// Writes each change of the connection's state until the client ends or the task is cancelled: online and offline as information,
        /// attempts that fail as warnings, what is given up as an error.
        public func logStates(to logger: Logger) async {
            for await state in states {
                switch state {
                case .offline: logger.info("offline")
                case .connecting(let attempt): logger.debug("connecting", metadata: ["attempt": "\(attempt)"])
                case .online(let server):
                    logger.info(
                        "online",
                        metadata: ["server": "\(server.address)", "session": server.isSessionPresent ? "resumed" : "new"])
                case .waiting(let milliseconds, let error):
                    logger.warning("no connection: \(error)", metadata: ["again-in-ms": "\(milliseconds)"])
                case .refused(let error): logger.error("given up: \(error)")
                case .ended: logger.info("ended")
                }
            }
        }
    }
#endif
