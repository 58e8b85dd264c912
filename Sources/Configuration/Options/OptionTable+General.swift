extension ConfigurationOption {
    /// The process, and how the file is read.
    static let generalOptions: [ConfigurationOption] = [
        .init(
            "include_dir", .includeDirectory, shape: "DIRECTORY",
            "Reads every *.conf of a directory at this place, in alphabetical order. Only in the main file."),
        .init(
            "per_listener_settings", .perListenerSettings, shape: "true|false", default: "false",
            "The security options apply to the listener in whose section they are, not to all listeners.", isRepeatable: false,
            status: .deprecated(
                "write listener_allow_anonymous, listener_auto_id_prefix or plugin_use in a listener's section instead")
        ),
        .init(
            "user", \BrokerConfiguration.general.userName, .text("NAME"),
            "The user that a broker started as root runs as once its ports are open."),
        .init(
            "pid_file", optional: \BrokerConfiguration.general.processIdentifierFile, .text("PATH"),
            "The file for the process ID."),
        .init(
            "sys_interval", \BrokerConfiguration.general.systemTopicIntervalSeconds, .limit(65535),
            "Seconds between two updates of the $SYS topics; 0 switches them off.", reload: true),
        .init(
            "enable_control_api", \BrokerConfiguration.general.enablesControlAPI, .boolean,
            "Answers on $CONTROL/broker/v1.", reload: true),
        .init(
            "set_tcp_nodelay", \BrokerConfiguration.general.disablesTCPDelay, .boolean,
            "Small packets are sent at once (TCP_NODELAY). Always so, also with false; packets for a client at one time leave together.",
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
            "The name of this broker, also below $SYS/brokers/: one topic level. Without it, the host name.", reload: true),
        .init(
            "martlet_compat", \BrokerConfiguration.general.compatibility, .choice,
            "The version of mosquitto whose defaults apply where they differ."),
        .init(
            "martlet_expand_environment", \BrokerConfiguration.general.expandsEnvironment, .boolean,
            "${NAME} in a value is replaced by the environment variable NAME; $${NAME} is ${NAME} itself."),
        .init(
            ignored: "retry_interval", section: .global, shape: "SECONDS", "Formerly the time after which packets were sent again.",
            because: "packets are sent again only on a new connection, as the standard demands"),
        .init(
            ignored: "websockets_log_level", section: .global, shape: "MASK", "Formerly the log level of libwebsockets.",
            because: "WebSockets are logged like all else, see log_type websockets"),
    ]

    private static let packetBufferSize = ConfigurationOption(
        "packet_buffer_size", \BrokerConfiguration.general.webSocketHeaderBytesMax, .integer(1...65_535),
        "The largest header of a WebSocket's HTTP request in bytes.")
}
