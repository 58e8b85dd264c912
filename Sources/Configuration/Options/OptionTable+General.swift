extension ConfigurationOption {
    /// The process, and how the file is read.
    static let generalOptions: [ConfigurationOption] = [
        .init(
            "include_dir", .includeDirectory, shape: "DIRECTORY",
            "Reads every *.conf of a directory at this place, in alphabetical order. Only in the main file."),
        .init(
            "per_listener_settings", .perListenerSettings, shape: "true|false", default: "false",
            "The security options hold for the listener in whose section they stand, not for the broker.", isRepeatable: false,
            status: .deprecated(
                "write listener_allow_anonymous, listener_auto_id_prefix or plugin_use in a listener's section instead")
        ),
        .init(
            "user", \BrokerConfiguration.general.userName, .text("NAME"),
            "Whom a broker that root started becomes once its ports are open."),
        .init(
            "pid_file", optional: \BrokerConfiguration.general.processIdentifierFile, .text("PATH"),
            "Where the process identifier is written."),
        .init(
            "sys_interval", \BrokerConfiguration.general.systemTopicIntervalSeconds, .limit(65535),
            "Seconds between two updates of the $SYS topics; 0 switches them off.", reload: true),
        .init(
            "enable_control_api", \BrokerConfiguration.general.enablesControlAPI, .boolean,
            "Answers on $CONTROL/broker/v1.", reload: true),
        .init(
            "set_tcp_nodelay", \BrokerConfiguration.general.disablesTCPDelay, .boolean,
            "Small packets are sent at once. They always are, also with false: what a turn of a loop has for a client leaves together.",
            reload: true),
        packetBufferSize,
        packetBufferSize.formerly("websockets_headers_size"),
        .init(
            "martlet_threads", \BrokerConfiguration.general.threads, .limit(1024),
            "The number of event loops; 0 chooses by the cores that the broker may use."),
        .init(
            "martlet_connect_timeout", \BrokerConfiguration.general.connectTimeoutSeconds, .integer(1...3600),
            "Seconds that a connection may take until its CONNECT is complete.", reload: true),
        .init(
            "martlet_node_name", optional: \BrokerConfiguration.general.nodeName, .nodeName,
            "What the broker is called below $SYS/brokers/: one level of a topic. Without it, the name of its host.", reload: true),
        .init(
            "martlet_compat", \BrokerConfiguration.general.compatibility, .choice,
            "The version of mosquitto whose defaults count where they differ."),
        .init(
            "martlet_expand_environment", \BrokerConfiguration.general.expandsEnvironment, .boolean,
            "${NAME} inside a value stands for the environment's NAME, $${NAME} for itself."),
        .init(
            ignored: "retry_interval", section: .global, shape: "SECONDS", "Once the time after which packets were sent again.",
            because: "packets are sent again only on a new connection, as the standard demands"),
        .init(
            ignored: "websockets_log_level", section: .global, shape: "MASK", "Once the log level of libwebsockets.",
            because: "WebSockets are logged like all else, see log_type websockets"),
    ]

    private static let packetBufferSize = ConfigurationOption(
        "packet_buffer_size", \BrokerConfiguration.general.webSocketHeaderBytesMax, .integer(1...65_535),
        "The largest header of a WebSocket's HTTP request in bytes.")
}
