CREATE TABLE "node_deks" (
	"node_id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"wrapping" text,
	"wrapped_dek" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"backed_up_at" timestamp (3) with time zone,
	"deleted_at" timestamp (3) with time zone,
	"settled_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "node_keys" (
	"node_id" uuid NOT NULL,
	"name" text NOT NULL,
	"type" text NOT NULL,
	"source" text NOT NULL,
	"public_key" text,
	"nonce" text NOT NULL,
	"ciphertext" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "node_keys_node_id_name_pk" PRIMARY KEY("node_id","name")
);
--> statement-breakpoint
ALTER TABLE "node_deks" ADD CONSTRAINT "node_deks_node_id_nodes_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "node_keys" ADD CONSTRAINT "node_keys_node_id_node_deks_node_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."node_deks"("node_id") ON DELETE no action ON UPDATE no action;